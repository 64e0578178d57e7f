from hypothesis import given
from hypothesis import strategies as st

from sdp_cache.inference.closure import components, gather

edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20)


def tables(edges):
    successors, predecessors = [[] for _ in range(8)], [[] for _ in range(8)]
    for x, y in edges:
        successors[x].append(y)
        predecessors[y].append(x)
    return successors, predecessors


def reached(successors, start):
    found = {start}
    while more := {step for node in found for step in successors[node]} - found:
        found |= more
    return found


@given(edges)
def test_components_are_those_who_reach_each_other_each_after_those_it_leads_to(edges):
    successors, predecessors = tables(edges)
    found = components(successors, predecessors)
    assert sorted(node for each in found for node in each) == list(range(8))
    before = set()
    for component in found:
        for node in component:
            assert {each for each in reached(successors, node) if node in reached(successors, each)} == set(
                component
            )
            assert reached(successors, node) <= before | set(component)
        before |= set(component)


@given(edges, st.lists(st.integers(0, 255), min_size=8, max_size=8))
def test_each_node_gathers_its_own_mask_and_those_of_all_it_reaches(edges, own):
    successors, predecessors = tables(edges)
    gathered = gather(components(successors, predecessors), successors, own)
    for node in range(8):
        expected = 0
        for each in reached(successors, node):
            expected |= own[each]
        assert gathered[node] == expected


def test_a_long_chain_is_no_matter_of_recursion():
    count = 5000
    successors = [[node + 1] if node + 1 < count else [] for node in range(count)]
    predecessors = [[node - 1] if node else [] for node in range(count)]
    assert gather(components(successors, predecessors), successors, [1] * count) == [1] * count
