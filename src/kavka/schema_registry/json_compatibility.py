"""Whether what is valid by one JSON Schema is valid by another.

Decides that, with a reason for each place where it is not known to be so. `reader` is the schema that has to accept
what `writer` accepted.

A property that a schema does not name is judged by its content model:

    open         anything may be there: no additionalProperties, patternProperties or unevaluatedProperties
    closed       nothing may be there
    partly open  what is there fits a schema (patternProperties, or a schema as additionalProperties)

    property          writer's model   fits
    new in reader     open             only if its schema is true: what was there before may be anything
                      partly open      if it accepts what that schema accepts
                      closed           if it is not required, or has a default
    gone in reader    reader is open   yes; partly open: if that schema accepts it; closed: no

Items of arrays that have a schema by position are judged in the same way. This is Confluent's "strict" policy.

Source: Confluent Schema Registry, "JSON Schema compatibility rules"; the names of the reasons are those of its
Difference.Type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from kavka.schema_registry.incompatibility import Incompatibility
from kavka.schema_registry.json_schema import Kind, Shape
from kavka.schema_registry.pairwise import Pairwise, settle

MOST_REASONS: Final = 50
MOST_PARTS: Final = 200
"""Of one combination: each part is compared with each."""
MOST_PATTERN: Final = 200
"""Characters of a pattern, and of a name that it is tried on."""
MOST_QUANTIFIERS: Final = 3
"""In a pattern: a search may take as many characters as the name has, to this power."""
MOST_STEPS: Final = 10_000_000
"""Of one search, at worst: a tenth of a second."""
STEPS: Final = 200
"""Of a search that count for one pair that is looked at."""

_UP, _DOWN = "INCREASED", "DECREASED"


def misfits(reader: Shape, writer: Shape) -> list[Incompatibility]:
    """Why the one does not accept all that the other does; empty where it does."""
    return settle(lambda pairs: _Difference(pairs).compare(writer, reader, "#"))[:MOST_REASONS]


def _misfit(kind: str, path: str, text: str, about: str = "") -> Incompatibility:
    return Incompatibility.of(kind, path, text, about)


class _Difference:
    """One look at all pairs; `old` accepted what `new` has to accept."""

    def __init__(self, pairs: Pairwise[Incompatibility]) -> None:
        self._pairs = pairs

    def compare(self, old: Shape | None, new: Shape | None, path: str) -> list[Incompatibility]:
        if new is None or old is new:
            return []
        if old is None:
            return [_misfit("SCHEMA_ADDED", path, "The new schema restricts what was anything before")]
        return self._pairs.check(new, old, lambda: self._compare(old, new, path))

    def _compare(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        if self._fits_a_part(old, new, path):
            return []
        if old.kind is not new.kind:
            if old.kind is Kind.FALSE or new.kind is Kind.EMPTY or _are_both_bytes(old, new):
                return []
            return [_misfit("TYPE_CHANGED", path, f"The type was {_shown(old)} and is {_shown(new)} in the new schema")]
        compare = {
            Kind.STRING: self._strings,
            Kind.NUMBER: self._numbers,
            Kind.ENUM: self._enums,
            Kind.CONST: self._consts,
            Kind.COMBINED: self._combinations,
            Kind.NOT: self._negations,
            Kind.OBJECT: self._objects,
            Kind.ARRAY: self._arrays,
        }.get(old.kind)
        return [] if compare is None else compare(old, new, path)

    def _fits_a_part(self, old: Shape, new: Shape, path: str) -> bool:
        """Whether one of a combination's parts settles it, where the other is no combination."""
        if (old.kind is Kind.COMBINED) == (new.kind is Kind.COMBINED):
            return False
        if new.kind is Kind.COMBINED:
            decides = len(new.parts) == 1 or new.criterion != "allOf"
            return decides and any(not self.compare(old, each, path) for each in new.parts[:MOST_PARTS])
        decides = len(old.parts) == 1 or old.criterion == "allOf"
        return decides and any(not self.compare(each, new, path) for each in old.parts[:MOST_PARTS])

    # ---------------------------------------------------------------------------------------------------------- values

    def _strings(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        found = _bound(old, new, path, "maxLength", "MAX_LENGTH", _DOWN)
        found += _bound(old, new, path, "minLength", "MIN_LENGTH", _UP)
        was, is_now = old.keywords.get("pattern"), new.keywords.get("pattern")
        if is_now is not None and is_now != was:
            kind = "PATTERN_ADDED" if was is None else "PATTERN_CHANGED"
            found.append(_misfit(kind, f"{path}/pattern", "The pattern is another one in the new schema", str(is_now)))
        return found

    def _numbers(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        found = _bound(old, new, path, "maximum", "MAXIMUM", _DOWN)
        found += _bound(old, new, path, "minimum", "MINIMUM", _UP)
        found += _bound(old, new, path, "exclusiveMaximum", "EXCLUSIVE_MAXIMUM", _DOWN)
        found += _bound(old, new, path, "exclusiveMinimum", "EXCLUSIVE_MINIMUM", _UP)
        found += _multiple(old, new, path)
        if new.is_integer and not old.is_integer:
            found.append(_misfit("TYPE_NARROWED", path, "The type was number and is integer in the new schema"))
        return found

    def _enums(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        before, after = self._listed(old.keywords.get("enum")), self._listed(new.keywords.get("enum"))
        missing = [each for each in before if each not in after]
        if not missing:
            return []
        kind = "ENUM_ARRAY_NARROWED" if after.keys() <= before.keys() else "ENUM_ARRAY_CHANGED"
        return [_misfit(kind, f"{path}/enum", "The new schema lacks values", ", ".join(missing)[:500])]

    def _listed(self, values: Any) -> dict[str, None]:
        found = dict.fromkeys(_values(values))
        self._pairs.take(len(found))
        return found

    def _consts(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        if _values([old.keywords["const"]]) == _values([new.keywords["const"]]):
            return []
        return [_misfit("ENUM_ARRAY_CHANGED", f"{path}/const", "The value is another one in the new schema")]

    # ----------------------------------------------------------------------------------------------------- combinations

    def _negations(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        if not self.compare(new.parts[0], old.parts[0], f"{path}/not"):
            return []
        return [_misfit("NOT_TYPE_EXTENDED", f"{path}/not", "The new schema excludes more")]

    def _combinations(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        if not _may_become(old, new):
            text = f"{old.criterion} became {new.criterion} in the new schema"
            return [_misfit("COMBINED_TYPE_CHANGED", path, text)]
        found: list[Incompatibility] = []
        if len(old.parts) < len(new.parts) and new.criterion == "allOf":
            found.append(_misfit("PRODUCT_TYPE_EXTENDED", path, "The new schema asks for more"))
        if len(old.parts) > len(new.parts) and old.criterion != "allOf":
            found.append(_misfit("SUM_TYPE_NARROWED", path, "The new schema has fewer alternatives"))
        if max(len(old.parts), len(new.parts)) > MOST_PARTS:
            text = f"More than {MOST_PARTS} parts are not compared"
            return [*found, _misfit("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path, text)]
        fitting = [
            [
                column
                for column, after in enumerate(new.parts)
                if not self.compare(before, after, f"{path}/{old.criterion}/{row}")
            ]
            for row, before in enumerate(old.parts)
        ]
        if _pairs_that_can_be_made(fitting) < min(len(old.parts), len(new.parts)):
            text = f"The parts of {new.criterion} do not accept what those of {old.criterion} did"
            found.append(_misfit("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path, text))
        return found

    # ---------------------------------------------------------------------------------------------------------- objects

    def _objects(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        before, after = _schemas(old, "properties"), _schemas(new, "properties")
        needed_before, needed = _names(old.keywords.get("required")), _names(new.keywords.get("required"))
        found: list[Incompatibility] = []
        self._pairs.take(len(before) + len(after) + len(needed_before) + len(needed))
        for name in {**before, **after}:
            where = f"{path}/properties/{name}"
            if name not in after:
                found += self._property_gone(old.inner(before[name]), new, name, where)
            elif name not in before:
                is_needed = name in needed and name not in needed_before
                found += self._property_new(old, new, name, where, is_needed=is_needed)
            else:
                found += self.compare(old.inner(before[name]), new.inner(after[name]), where)
                if name in needed and name not in needed_before and not _has_default(after[name]):
                    text = f"{name} is required in the new schema, and was not"
                    found.append(_misfit("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", text))
        for name in sorted(set(needed).difference(needed_before, after)):
            text = f"{name} is required in the new schema, and was not"
            found.append(_misfit("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", text))
        found += self._dependencies(old, new, f"{path}/dependencies")
        found += self._rest(old, new, path, "additionalProperties", "ADDITIONAL_PROPERTIES")
        found += self._unevaluated(old, new, path, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")
        found += _bound(old, new, path, "maxProperties", "MAX_PROPERTIES", _DOWN)
        found += _bound(old, new, path, "minProperties", "MIN_PROPERTIES", _UP)
        return found

    def _property_gone(self, gone: Shape, new: Shape, name: str, path: str) -> list[Incompatibility]:
        if _is_open(new):
            return []
        covering, why = self._covering(new, name)
        if why:
            return [_misfit("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, why, name)]
        if covering is not None:
            found = self.compare(gone, covering, path)
            text = f"{name} is gone, and what the new schema says of such names does not accept it"
            kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, _misfit(kind, path, text, name)] if found else []
        if gone.kind is Kind.FALSE:
            return []
        text = f"{name} is gone, and the new schema allows no further properties"
        return [_misfit("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, text, name)]

    def _property_new(self, old: Shape, new: Shape, name: str, path: str, *, is_needed: bool) -> list[Incompatibility]:
        schema = _schemas(new, "properties")[name]
        added = new.inner(schema)
        if _is_open(old):
            if added.kind is Kind.EMPTY and (not is_needed or _has_default(schema)):
                return []
            what = "OPTIONAL_PROPERTY"
            if is_needed:
                what = "REQUIRED_PROPERTY_WITH_DEFAULT" if _has_default(schema) else "REQUIRED_PROPERTY"
            text = f"{name} is restricted in the new schema, and could be anything before, or absent"
            return [_misfit(f"{what}_ADDED_TO_OPEN_CONTENT_MODEL", path, text, name)]
        found: list[Incompatibility] = []
        covering, why = self._covering(old, name)
        wrong = [] if covering is None else self.compare(covering, added, path)
        if why or wrong:
            text = why or f"{name} is new, and accepts less than the old schema did for such names"
            kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            found += [*wrong, _misfit(kind, path, text, name)]
        if is_needed and not _has_default(schema):
            text = f"{name} is new, required, and has no default"
            found.append(_misfit("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path, text, name))
        return found

    def _dependencies(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        found: list[Incompatibility] = []
        before, after = _dependencies(old), _dependencies(new)
        self._pairs.take(len(before) + len(after))
        for name, wanted in after.items():
            where, known = f"{path}/{name}", before.get(name)
            is_array = isinstance(wanted, list)
            if known is None or isinstance(known, list) != is_array:
                kind = "DEPENDENCY_ARRAY_ADDED" if is_array else "DEPENDENCY_SCHEMA_ADDED"
                found.append(_misfit(kind, where, "The new schema asks for more"))
            elif isinstance(wanted, list):
                if not set(_values(wanted)) <= set(_values(known)):
                    is_more = set(_values(known)) <= set(_values(wanted))
                    kind = "DEPENDENCY_ARRAY_EXTENDED" if is_more else "DEPENDENCY_ARRAY_CHANGED"
                    found.append(_misfit(kind, where, "The new schema asks for more"))
            else:
                found += self.compare(old.inner(known), new.inner(wanted), where)
        return found

    # ----------------------------------------------------------------------------------------------------------- arrays

    def _arrays(self, old: Shape, new: Shape, path: str) -> list[Incompatibility]:
        before, after = _tuple_of(old), _tuple_of(new)
        self._pairs.take(len(before) + len(after))
        found = self.compare(_items_of(old), _items_of(new), f"{path}/items")
        for index in range(max(len(before), len(after))):
            where = f"{path}/items/{index}"
            if index >= len(after):
                found += self._item_gone(old.inner(before[index]), new, where)
            elif index >= len(before):
                found += self._item_new(old, new.inner(after[index]), where)
            else:
                found += self.compare(old.inner(before[index]), new.inner(after[index]), where)
        found += self._rest(old, new, path, _REST_OF_ITEMS, "ADDITIONAL_ITEMS")
        found += self._unevaluated(old, new, path, "unevaluatedItems", "UNEVALUATED_ITEMS")
        found += _bound(old, new, path, "maxItems", "MAX_ITEMS", _DOWN)
        found += _bound(old, new, path, "minItems", "MIN_ITEMS", _UP)
        found += _bound(old, new, path, "maxContains", "MAX_CONTAINS", _DOWN)
        found += _bound(old, new, path, "minContains", "MIN_CONTAINS", _UP)
        if new.keywords.get("uniqueItems") is True and old.keywords.get("uniqueItems") is not True:
            found.append(_misfit("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "Items must differ in the new schema"))
        return found

    def _item_gone(self, gone: Shape, new: Shape, path: str) -> list[Incompatibility]:
        permits, schema = _rest_of(new, _REST_OF_ITEMS)
        if permits and schema is None:
            return []
        if schema is not None:
            found = self.compare(gone, schema, path)
            kind = "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, _misfit(kind, path, "What is said of further items does not accept it")] if found else []
        if gone.kind is Kind.FALSE:
            return []
        return [_misfit("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, "The new schema allows no further items")]

    def _item_new(self, old: Shape, added: Shape, path: str) -> list[Incompatibility]:
        permits, schema = _rest_of(old, _REST_OF_ITEMS)
        if permits and schema is None:
            if added.kind is Kind.EMPTY:
                return []
            return [_misfit("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path, "The item could be anything before")]
        if schema is None:
            return []
        found = self.compare(schema, added, path)
        kind = "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, _misfit(kind, path, "The item accepts less than further items did")] if found else []

    # ----------------------------------------------------------------------------------------------------- what is left

    def _covering(self, shape: Shape, name: str) -> tuple[Shape | None, str]:
        """What a schema says of a property that it does not name; or why that is not known."""
        for pattern, schema in _schemas(shape, "patternProperties").items():
            steps, search = _steps(pattern, name), _searcher(pattern)
            if search is None or steps is None:
                return None, f"Whether {name[:MOST_PATTERN]} fits the pattern {pattern[:MOST_PATTERN]} is not looked at"
            self._pairs.take(1 + steps // STEPS)
            if search(name):
                return shape.inner(schema), ""
        _, schema = _rest_of(shape, "additionalProperties")
        if schema is None and "additionalProperties" not in shape.keywords:
            unevaluated = shape.keywords.get("unevaluatedProperties")
            if isinstance(unevaluated, dict):
                return shape.inner(unevaluated), ""
        return schema, ""

    def _rest(self, old: Shape, new: Shape, path: str, keyword: str, kind: str) -> list[Incompatibility]:
        """additionalProperties or additionalItems."""
        where = f"{path}/{'additionalItems' if keyword == _REST_OF_ITEMS else keyword}"
        permitted, before = _rest_of(old, keyword)
        permits, after = _rest_of(new, keyword)
        if permitted and not permits:
            return [_misfit(f"{kind}_REMOVED", where, "The new schema allows nothing further")]
        if not permitted or after is None:
            return []
        if before is None:
            return [_misfit(f"{kind}_NARROWED", where, "The new schema restricts what could be anything before")]
        return self.compare(before, after, where)

    def _unevaluated(self, old: Shape, new: Shape, path: str, keyword: str, kind: str) -> list[Incompatibility]:
        after = new.keywords.get(keyword)
        if after is None or after is True:
            return []
        where, before = f"{path}/{keyword}", old.keywords.get(keyword)
        if before is False:
            return []
        if after is False:
            return [_misfit(f"{kind}_REMOVED", where, "The new schema allows nothing further")]
        if before is None or before is True:
            return [_misfit(f"{kind}_NARROWED", where, "The new schema restricts what could be anything before")]
        return self.compare(old.inner(before), new.inner(after), where)


_REST_OF_ITEMS: Final = "items behind those by position"


def _shown(shape: Shape) -> str:
    if shape.kind is Kind.COMBINED:
        return shape.criterion
    return "integer" if shape.is_integer else shape.kind.value


def _are_both_bytes(old: Shape, new: Shape) -> bool:
    """Kafka Connect's converter wrote decimals of one meaning in two types."""
    return old.keywords.get("connect.type") == new.keywords.get("connect.type") == "bytes"


def _bound(old: Shape, new: Shape, path: str, keyword: str, kind: str, stricter: str) -> list[Incompatibility]:
    """A limit that is new, or stricter than before."""
    before, after = _number(old.keywords.get(keyword)), _number(new.keywords.get(keyword))
    if after is None or before == after:
        return []
    if before is None:
        return [_misfit(f"{kind}_ADDED", f"{path}/{keyword}", f"{keyword} is {after} in the new schema", str(after))]
    if (after > before) == (stricter == _UP):
        text = f"{keyword} was {before} and is {after} in the new schema"
        return [_misfit(f"{kind}_{stricter}", f"{path}/{keyword}", text, str(after))]
    return []


def _multiple(old: Shape, new: Shape, path: str) -> list[Incompatibility]:
    before, after = _number(old.keywords.get("multipleOf")), _number(new.keywords.get("multipleOf"))
    if after is None or before == after or after == 0:
        return []
    if before is None:
        kind = "MULTIPLE_OF_ADDED"
    elif before % after == 0:
        return []
    else:
        kind = "MULTIPLE_OF_EXPANDED" if before != 0 and after % before == 0 else "MULTIPLE_OF_CHANGED"
    return [_misfit(kind, f"{path}/multipleOf", f"multipleOf is {after} in the new schema", str(after))]


def _number(found: Any) -> Decimal | None:
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    number = Decimal(str(found)) if abs(found) < 10**30 else None
    return number if number is not None and number.is_finite() else None


def _values(found: Any) -> list[str]:
    """Values of JSON as texts that can be compared: 1 and 1.0 are one, 1 and true are two."""
    values = found if isinstance(found, list) else []
    return [json.dumps(_plain(each), sort_keys=True) for each in values]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _schemas(shape: Shape, keyword: str) -> Mapping[str, Any]:
    found = shape.keywords.get(keyword)
    return found if isinstance(found, dict) else {}


def _names(found: Any) -> frozenset[str]:
    return frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list) else frozenset()


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _dependencies(shape: Shape) -> dict[str, Any]:
    return {
        **_schemas(shape, "dependencies"),
        **_schemas(shape, "dependentRequired"),
        **_schemas(shape, "dependentSchemas"),
    }


def _tuple_of(shape: Shape) -> Sequence[Any]:
    """The schemas of items by their position."""
    for keyword in ("prefixItems", "items"):
        found = shape.keywords.get(keyword)
        if isinstance(found, list):
            return found
    return ()


def _items_of(shape: Shape) -> Shape | None:
    """The schema of all items, where they have none by position."""
    found = shape.keywords.get("items")
    if found is None or isinstance(found, list) or "prefixItems" in shape.keywords:
        return None
    return shape.inner(found)


def _rest_of(shape: Shape, keyword: str) -> tuple[bool, Shape | None]:
    """Whether there may be more than what is named, and what it has to fit."""
    if keyword == _REST_OF_ITEMS:
        found = shape.keywords.get("items" if "prefixItems" in shape.keywords else "additionalItems")
    else:
        found = shape.keywords.get(keyword)
    if found is None or found is True or isinstance(found, list):
        return True, None
    return (False, None) if found is False else (True, shape.inner(found))


def _is_open(shape: Shape) -> bool:
    permits, schema = _rest_of(shape, "additionalProperties")
    unevaluated = shape.keywords.get("unevaluatedProperties")
    is_free = unevaluated is None or unevaluated is True
    return permits and schema is None and is_free and not _schemas(shape, "patternProperties")


def _steps(pattern: str, name: str) -> int | None:
    """How many steps a search takes at worst; None where that is not known."""
    if len(pattern) > MOST_PATTERN or len(name) > MOST_PATTERN or re.search(r"\)[*+{]|\\\d", pattern):
        return None
    quantifiers = len(re.findall(r"[*+{?]", pattern))
    if quantifiers > MOST_QUANTIFIERS:
        return None
    # Groups with alternatives that stand one after the other multiply. A search begins at each character.
    ways = 2 ** pattern.count("|") if pattern.count("(") > 1 else pattern.count("|") + 1
    starts = 1 if pattern.startswith("^") and "|" not in pattern else len(name) + 1
    steps: int = ways * starts * (len(name) + 1) ** quantifiers
    return steps if steps <= MOST_STEPS else None


def _searcher(pattern: str) -> Callable[[str], object] | None:
    try:
        return re.compile(pattern).search
    except (re.error, OverflowError, RecursionError):
        return None


def _may_become(old: Shape, new: Shape) -> bool:
    """Whether a combination may change its criterion."""
    if old.criterion == new.criterion or new.criterion == "anyOf":
        return True
    was_one, is_one = len(old.parts) == 1, len(new.parts) == 1
    return (was_one and (is_one or new.criterion == "oneOf")) or (is_one and old.criterion == "allOf")


def _pairs_that_can_be_made(fitting: Sequence[Sequence[int]]) -> int:
    """How many rows can have a column of their own (the size of a maximum matching, by augmenting paths)."""
    owner: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for column in fitting[row]:
            if column in tried:
                continue
            tried.add(column)
            if column not in owner or place(owner[column], tried):
                owner[column] = row
                return True
        return False

    return sum(place(row, set()) for row in range(len(fitting)))
