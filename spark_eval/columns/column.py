"""A column of JSON values: each distinct value once, sorted by how it is tested, and for each row its number.

Texts and numbers are tested by kernels, lists by where each of their elements stands, and what remains by the compiled
closure. What is missing has the number -1: in every array of outcomes the last one, which is false.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeGuard

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from authz.predicate import (
    AnyComparison,
    Contains,
    Equal,
    EqualDocument,
    Exists,
    In,
    Kind,
    Layout,
    Names,
    Order,
    Overlaps,
    Path,
    Prefix,
    Scalar,
    Subset,
    Suffix,
    compile_predicate,
)

Codes: TypeAlias = npt.NDArray[np.int64]
Outcomes: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.float64]

EXACT = 2**53
"""Up to here every whole number has a float of its own."""

_VALUE = Path("value")
_BARE: Layout[object] = Layout({}, {"value": "it"})
"""For comparisons of a value that is already at hand."""

_NUMBER_ORDERS: dict[str, Callable[[Numbers, float], Outcomes]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_ORDERS = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


@dataclass(frozen=True, slots=True)
class Column:
    """The values at one path, row by row."""

    codes: Codes
    values: Values

    @classmethod
    def of(cls, values: Iterable[object]) -> Column:
        """The column of these values, None where one is missing."""
        encoding = _Encoding()
        places = [encoding.place(value) for value in values]
        return cls(encoding.codes(places), encoding.values())

    def test(self, test: AnyComparison) -> Outcomes:
        """The rows whose value passes."""
        return self.values.test(test)[self.codes]

    def rows(self) -> list[object]:
        """The values row by row."""
        objects = self.values.objects
        return [objects[code] for code in self.codes.tolist()]

    def take(self, rows: Codes) -> Column:
        return Column(self.codes[rows], self.values)


class Values:
    """Distinct values: texts first, then numbers that a float holds exactly, then lists, then all others."""

    def __init__(
        self,
        texts: pa.StringArray | None = None,
        numbers: Numbers | None = None,
        lists: Lists | None = None,
        others: Sequence[object] = (),
    ) -> None:
        self._texts = pa.array([], pa.string()) if texts is None else texts
        self._numbers = np.empty(0) if numbers is None else numbers
        self._lists = lists
        self._others = others

    def __len__(self) -> int:
        lists = self._lists.count if self._lists else 0
        return len(self._texts) + len(self._numbers) + lists + len(self._others)

    @cached_property
    def objects(self) -> list[object]:
        """The values as Python has them, and None behind them, where the number -1 finds it."""
        lists = self._lists.objects() if self._lists else []
        return [*self._text_objects, *self._numbers.tolist(), *lists, *self._others, None]

    @cached_property
    def _text_objects(self) -> list[str]:
        texts: list[str] = self._texts.to_pylist()
        return texts

    def test(self, test: AnyComparison) -> Outcomes:
        """For each value whether it passes, and False behind them."""
        outcomes = [self._test_texts(test), self._test_numbers(test)]
        if self._lists:
            outcomes.append(self._lists.test(test))
        return np.concatenate([*outcomes, _ask_each(test, self._others), [False]])

    def _test_texts(self, test: AnyComparison) -> Outcomes:
        count = len(self._texts)
        match test:
            case _ if not count:
                return np.zeros(0, np.bool_)
            case Exists():
                return np.ones(count, np.bool_)
            case Kind(_, kind):
                return np.full(count, kind == "string")
            case Equal(_, str(value), fold=False):
                return self._named([value])
            case Order(_, op, str(value)):
                return _outcomes(_TEXT_ORDERS[op](self._texts, value))
            case In(_, values):
                return self._named(values)
            case Prefix(_, value, fold=False):
                return _outcomes(pc.starts_with(self._texts, value))
            case Suffix(_, value, fold=False):
                return _outcomes(pc.ends_with(self._texts, value))
            case Contains(_, value, fold=False):
                return _outcomes(pc.match_substring(self._texts, value))
        return _ask_each(test, self._text_objects)

    def _named(self, wanted: Iterable[Scalar]) -> Outcomes:
        """The texts among those wanted: looked up, since policies ask for few of many again and again."""
        found = np.zeros(len(self._texts), np.bool_)
        places = self._text_places
        found[[places[each] for each in wanted if isinstance(each, str) and each in places]] = True
        return found

    @cached_property
    def _text_places(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self._text_objects)}

    def _test_numbers(self, test: AnyComparison) -> Outcomes:
        numbers = self._numbers
        match test:
            case _ if not len(numbers):
                return np.zeros(0, np.bool_)
            case Exists():
                return np.ones(len(numbers), np.bool_)
            case Kind(_, kind):
                return np.full(len(numbers), kind == "number")
            case Equal(_, value) | Order(_, _, value) if not _is_number(value):
                return np.zeros(len(numbers), np.bool_)
            case Equal(_, value) if is_exact(value):
                return np.equal(numbers, float(value))
            case Order(_, op, value) if is_exact(value):
                return _NUMBER_ORDERS[op](numbers, float(value))
            case In(_, values) if all(is_exact(each) for each in values if _is_number(each)):
                return np.isin(numbers, [float(each) for each in values if is_exact(each)])
            case Equal() | Order() | In() | EqualDocument():
                return _ask_each(test, numbers.tolist())
        return np.zeros(len(numbers), np.bool_)


class Lists:
    """Distinct lists, by their elements: where each distinct element stands."""

    def __init__(
        self, parents: Codes, elements: Column, objects: Callable[[], Sequence[object]], count: int
    ) -> None:
        """`parents` has for each element the number of its list; the lists themselves are made when needed."""
        # Numbers from 0 on, 0 being null; short ones are sorted much faster.
        codes = (elements.codes + 1).astype(np.min_scalar_type(len(elements.values)))
        order = np.argsort(codes, kind="stable")
        self._elements = elements.values
        self._parents = parents[order]
        self._bounds = np.searchsorted(codes[order], np.arange(len(self._elements) + 2))
        self.objects = objects
        self.count = count

    def test(self, test: AnyComparison) -> Outcomes:
        match test:
            case Exists():
                return np.ones(self.count, np.bool_)
            case Kind(_, kind):
                return np.full(self.count, kind == "list")
            case Overlaps(_, values):
                return self._with_any(self._among(values))
            case Subset(_, values):
                return ~self._with_any(~self._among(values))
            case EqualDocument() | Names():
                return _ask_each(test, self.objects())
        return np.zeros(self.count, np.bool_)

    def _among(self, values: tuple[Scalar, ...]) -> Outcomes:
        return self._elements.test(In(_VALUE, values))

    def _with_any(self, wanted: Outcomes) -> Outcomes:
        """The lists with an element among those wanted; null is the last of them."""
        found = np.zeros(self.count, np.bool_)
        for code in np.flatnonzero(np.roll(wanted, 1)):
            found[self._parents[self._bounds[code] : self._bounds[code + 1]]] = True
        return found


class _Encoding:
    """A column in the making: the values met so far, each with its place in its part."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._numbers: dict[float, int] = {}
        self._lists: dict[str, tuple[int, list[object]]] = {}
        self._others: dict[str, tuple[int, object]] = {}

    def place(self, value: object) -> tuple[int, int]:
        """In which of the four parts a value stands, and at which place there; (4, 0) if it is missing."""
        if isinstance(value, str) and (value.isascii() or _is_unicode(value)):
            return 0, self._texts.setdefault(value, len(self._texts))
        if value is None:
            return 4, 0
        if is_exact(value):
            return 1, self._numbers.setdefault(float(value), len(self._numbers))
        if isinstance(value, (list, tuple)):
            return 2, self._lists.setdefault(repr(value), (len(self._lists), list(value)))[0]
        return 3, self._others.setdefault(repr(value), (len(self._others), value))[0]

    def codes(self, places: list[tuple[int, int]]) -> Codes:
        sizes = [len(self._texts), len(self._numbers), len(self._lists), len(self._others)]
        starts = np.concatenate([np.cumsum([0, *sizes[:3]]), [-1]])
        table = np.array(places, dtype=np.int64).reshape(-1, 2)
        return starts[table[:, 0]] + table[:, 1]

    def values(self) -> Values:
        return Values(
            pa.array(list(self._texts), pa.string()),
            np.array(list(self._numbers), dtype=np.float64),
            self._make_lists() if self._lists else None,
            [value for _, value in self._others.values()],
        )

    def _make_lists(self) -> Lists:
        objects = [value for _, value in self._lists.values()]
        parents = np.repeat(np.arange(len(objects)), [len(each) for each in objects])
        elements = Column.of(element for each in objects for element in each)
        return Lists(parents, elements, lambda: objects, len(objects))


def is_exact(value: object) -> TypeGuard[float]:
    """Whether the value is a number, and a float holds it exactly."""
    if isinstance(value, float):
        return value == value
    return isinstance(value, int) and value.__class__ is not bool and -EXACT <= value <= EXACT


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and value.__class__ is not bool


def _is_unicode(text: str) -> bool:
    """Whether the text has no half of a surrogate pair, which Arrow cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ask_each(test: AnyComparison, values: Sequence[object]) -> Outcomes:
    """What the closure says of each value."""
    if not values:
        return np.zeros(0, np.bool_)
    passes = compile_predicate(msgspec.structs.replace(test, path=_VALUE), _BARE)
    return np.fromiter(map(passes, values), np.bool_, len(values))


def _outcomes(array: pa.BooleanArray) -> Outcomes:
    outcomes: Outcomes = array.to_numpy(zero_copy_only=False)
    return outcomes
