"""Turns the table of a message into straight-line Python functions, one pair per version.

A loop over a table of fields costs several dictionary look-ups and calls per field; the functions written here have no
decision left that depends on the version. Three things make them short:

* fields of fixed size that follow one another are read by one `struct` call, together with the first byte of the varint
  behind them (a length or count is nearly always below 128, so this first byte is nearly always all of it);
* a message's structs are made without `__init__` and filled in place;
* nested structs are written in line, without a call.

    decode:  (data) -> message                 raises struct.error or IndexError where the bytes end too early
    encode:  (message) -> bytearray
    chunks:  (message) -> list of chunks, record batches by reference

I1. Decoding compares every length and count with what remains before it allocates or loops: a count of elements with
    remaining bytes / smallest size of an element.
I2. The written source depends on the table and the version alone.

Only codec.py calls this module; it translates the exceptions.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable
from typing import Any, TypeAlias

from kavka.errors import InvariantViolation
from kavka.protocol import primitives
from kavka.protocol.schema import Field, Message, Schema, Struct

Names: TypeAlias = dict[str, Any]

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Wire types of fixed size as `struct` writes them, big-endian."""

SIZES = {kind: struct_module.calcsize(">" + code) for kind, code in FORMATS.items()}

NUMBERS = frozenset(FORMATS) - {"uuid", "bool"}


def decoder(message_type: type[Message], version: int) -> Callable[[primitives.Buffer], Any]:
    """The function that reads `version` of a message from a whole buffer."""
    return DecoderWriter(message_type._schema, version).compile(message_type)


def encoder(message_type: type[Message], version: int) -> Callable[[Any], bytearray]:
    """The function that writes `version` of a message into one buffer."""
    return EncoderWriter(message_type._schema, version, by_reference=False).compile(message_type)


def chunk_encoder(message_type: type[Message], version: int) -> Callable[[Any], list[Any]]:
    """The function that writes `version` of a message as chunks, its record batches by reference."""
    return EncoderWriter(message_type._schema, version, by_reference=True).compile(message_type)


def has_records(fields: tuple[Field, ...], version: int) -> bool:
    return any(
        version in field.versions
        and (
            field.kind == "records" or (isinstance(field.element, type) and has_records(field.element._fields, version))
        )
        for field in fields
    )


def minimum_size(struct: type[Struct], version: int, *, flexible: bool) -> int:
    """The fewest bytes that a struct can take."""
    size = 1 if flexible else 0
    for field in struct._fields:
        if version in field.versions and version not in field.tagged:
            size += minimum_field_size(field, version, flexible=flexible)
    return size


def minimum_field_size(field: Field, version: int, *, flexible: bool) -> int:
    if field.kind in SIZES:
        return SIZES[field.kind]
    if field.kind == "struct":
        nullable = version in field.nullable
        return 1 if nullable else minimum_size(field.struct, version, flexible=flexible)
    if flexible and field.flexible:
        return 1
    return 2 if field.kind == "string" else 4


class Writer:
    """Lines of a function in the making, and the objects that they name."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.schema = schema
        self.version = version
        self.flexible = schema.is_flexible(version)
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.depth = 1
        self.names: Names = {}
        self.counter = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def constant(self, stem: str, value: object) -> str:
        """A name for `value` in the function's globals; the same one for the same object."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def codec(self, form: str, method: str) -> str:
        """A name for a bound `pack` or `unpack_from` of one format."""
        key = f"{method}_" + form.replace("?", "t")
        if key not in self.names:
            self.names[key] = getattr(struct_module.Struct(">" + form), method)
        return key

    def here(self, fields: tuple[Field, ...]) -> list[Field]:
        return [field for field in fields if self.version in field.versions and self.version not in field.tagged]

    def tagged(self, fields: tuple[Field, ...]) -> list[Field]:
        found = [field for field in fields if self.version in field.versions and self.version in field.tagged]
        return sorted(found, key=lambda field: field.tag or 0)

    def literal(self, value: object) -> str:
        if value is None or isinstance(value, bool | int | str | bytes):
            return repr(value)
        return self.constant("default", value)

    def source(self, name: str, parameter: str) -> str:
        return f"def {name}({parameter}):\n" + "\n".join(self.lines) + "\n"

    def made(self, name: str, source: str) -> Callable[..., Any]:
        label = f"<{self.schema.name} v{self.version} {name}>"
        exec(compile("\n".join([*self.functions, source]), label, "exec"), self.names)
        function: Callable[..., Any] = self.names[name]
        return function


class DecoderWriter(Writer):
    """Writes a decode function. `waiting` holds the fields of fixed size that wait for their `struct` call."""

    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self.waiting: list[tuple[str, str]] = []
        self.after: list[str] = []
        self.names.update(
            new=object.__new__,
            uvarint_tail=primitives.uvarint_tail,
            skip_tags=primitives.skip_tags,
            make_uuid=primitives.make_uuid,
            known_uuid=primitives.UUIDS.get,
            too_short=primitives.too_short,
            too_many=primitives.too_many,
            too_long=primitives.too_long,
            not_nullable=primitives.not_nullable,
            unpack_from=struct_module.unpack_from,
        )

    def compile(self, message_type: type[Message]) -> Callable[[primitives.Buffer], Any]:
        if has_records(self.schema.fields, self.version):
            self.line("if type(data) is not memoryview:")
            self.line("    data = memoryview(data)")
        self.line("end = len(data)")
        self.line("p = 0")
        self.write_struct(message_type, "message")
        self.flush()
        if self.schema.kind != "request":
            self.line("if p != end:")
            self.line("    raise too_many('bytes behind the message', 0, end - p)")
        self.line("return message")
        return self.made("decode", self.source("decode", "data"))

    def write_struct(self, struct: type[Struct], target: str) -> None:
        """Reads a struct into the local variable `target`; leaves the run of its last fields waiting."""
        self.line(f"{target} = new({self.constant(struct.__name__, struct)})")
        tagged = self.tagged(struct._fields)
        for field in struct._fields:
            if self.version not in field.versions or field in tagged:
                self.write_default(field, target)
        for field in self.here(struct._fields):
            self.write_field(field, f"{target}.{field.name}")
        if self.flexible:
            self.write_tags(struct, tagged, target)

    def write_default(self, field: Field, target: str) -> None:
        if field.kind == "array" and field.default_factory is not None:
            value = "[]"
        elif field.default_factory is not None:
            value = self.constant("make", field.default_factory) + "()"
        else:
            value = self.literal(field.default)
        self.line(f"{target}.{field.name} = {value}")

    def write_field(self, field: Field, target: str) -> None:
        match field.kind:
            case "uuid":
                raw = self.fresh("raw")
                self.read("16s", raw)
                self.then(f"{target} = known_uuid({raw}) or make_uuid({raw})")
            case kind if kind in FORMATS:
                self.read(FORMATS[kind], target)
            case "struct":
                self.write_inner_struct(field, target)
            case "array":
                self.write_array(field, target)
            case _:
                self.write_bytes(field, target)

    def write_inner_struct(self, field: Field, target: str) -> None:
        inner = self.fresh("inner")
        if self.version in field.nullable:
            present = self.fresh("present")
            self.read("b", present)
            self.flush()
            # Kafka writes null as -1, but as 0 where the struct is tagged.
            self.line(f"if {present} <= 0:" if self.version in field.tagged else f"if {present} < 0:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
            self.write_struct(field.struct, inner)
            self.flush()
            self.line(f"{target} = {inner}")
            self.depth -= 1
        else:
            self.write_struct(field.struct, inner)
            self.then(f"{target} = {inner}")

    def write_bytes(self, field: Field, target: str) -> None:
        """A string, bytes, or record batches."""
        count, stop = self.fresh("n"), self.fresh("e")
        where = self.path(target)
        compact = self.flexible and field.flexible
        match field.kind:
            case "string":
                value = f'str(data[p:{stop}], "utf-8")'
            case "bytes":
                value = f"bytes(data[p:{stop}])"
            case _:
                value = f"data[p:{stop}]"
        self.write_length(count, compact=compact, wide=field.kind != "string")
        if compact and field.kind == "string":
            # Still inside the branch for lengths over 127.
            self.line(f"    if {count} > {primitives.STRING_MAX_BYTES + 1}:")
            self.line(f"        raise too_long({where}, {count} - 1)")
        self.line(f"if {count}:" if compact else f"if {count} >= 0:")
        self.line(f"    {stop} = p + {count}" + (" - 1" if compact else ""))
        self.line(f"    if {stop} > end:")
        self.line(f"        raise too_short({where}, {stop} - p, end - p)")
        self.line(f"    {target} = {value}")
        self.line(f"    p = {stop}")
        self.line("else:")
        if self.version in field.nullable:
            self.line(f"    {target} = None")
        else:
            self.line(f"    raise not_nullable({where})")

    def write_length(self, count: str, *, compact: bool, wide: bool) -> None:
        """Reads a length or count: compact ones are one more than the length, 0 for null; others -1 for null."""
        if compact:
            self.read("B", count)
            self.flush()
            self.line(f"if {count} > 127:")
            self.line(f"    {count}, p = uvarint_tail(data, p, {count})")
        else:
            self.read("i" if wide else "h", count)
            self.flush()

    def write_array(self, field: Field, target: str) -> None:
        count = self.fresh("n")
        where = self.path(target)
        self.write_length(count, compact=self.flexible, wide=True)
        null = f"not {count}" if self.flexible else f"{count} < 0"
        self.line(f"if {null}:")
        if self.version in field.nullable:
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
        else:
            self.line(f"    raise not_nullable({where})")
        if self.flexible:
            self.line(f"{count} -= 1")
        smallest = self.smallest_element(field)
        needed = count if smallest == 1 else f"{count} * {smallest}"
        self.line(f"if {needed} > end - p:")
        self.line(f"    raise too_many({where}, {count}, end - p)")
        self.write_elements(field, target, count)
        if self.version in field.nullable:
            self.depth -= 1

    def smallest_element(self, field: Field) -> int:
        if isinstance(field.element, type):
            size = minimum_size(field.element, self.version, flexible=self.flexible)
        elif field.element in SIZES:
            size = SIZES[field.element]
        else:
            size = 1 if self.flexible else 2 if field.element == "string" else 4
        if size == 0:
            raise InvariantViolation(f"{self.schema.name} v{self.version}: elements of {field.name} take no bytes")
        return size

    def write_elements(self, field: Field, target: str, count: str) -> None:
        if field.element in NUMBERS:
            assert isinstance(field.element, str)
            self.line(f'{target} = list(unpack_from(f">{{{count}}}{FORMATS[field.element]}", data, p))')
            self.line(f"p += {count} * {SIZES[field.element]}")
            return
        items = self.fresh("items")
        self.line(f"{target} = {items} = []")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        item = self.fresh("item")
        if isinstance(field.element, type):
            self.write_struct(field.element, item)
        else:
            self.write_field(element_field(field, field.element), item)
        self.flush()
        self.line(f"{items}.append({item})")
        self.depth -= 1

    def write_tags(self, struct: type[Struct], tagged: list[Field], target: str) -> None:
        count = self.fresh("t")
        self.read("B", count)
        self.then(f"if {count}:")
        if tagged:
            function = self.write_tag_function(struct, tagged)
            self.then(f"    p = {function}({target}, data, p, end, {count})")
        else:
            self.then(f"    p = skip_tags(data, p, end, {count})")
        self.flush()

    def write_tag_function(self, struct: type[Struct], tagged: list[Field]) -> str:
        """Tagged fields are rare, so they are read by a function of their own."""
        name = self.fresh("tags_of_" + struct.__name__)
        outer = (self.lines, self.depth, self.waiting, self.after)
        self.lines, self.depth, self.waiting, self.after = [], 1, [], []
        self.line("if count > 127:")
        self.line("    count, p = uvarint_tail(data, p, count)")
        self.line("if count * 2 > end - p:")
        self.line("    raise too_many('tagged fields', count, end - p)")
        self.line("for _ in range(count):")
        self.depth += 1
        for part in ("tag", "size"):
            self.line(f"{part} = data[p]")
            self.line("p += 1")
            self.line(f"if {part} > 127:")
            self.line(f"    {part}, p = uvarint_tail(data, p, {part})")
        self.line("stop = p + size")
        self.line("if stop > end:")
        self.line("    raise too_short('tagged field', size, end - p)")
        keyword = "if"
        for field in tagged:
            self.line(f"{keyword} tag == {field.tag}:")
            self.depth += 1
            self.write_field(field, f"message.{field.name}")
            self.flush()
            self.depth -= 1
            keyword = "elif"
        self.line("else:")
        self.line("    p = stop")
        self.line("if p != stop:")
        self.line("    raise too_short('tagged field', size, size + p - stop)")
        self.depth -= 1
        self.line("return p")
        self.functions.append(self.source(name, "message, data, p, end, count"))
        self.lines, self.depth, self.waiting, self.after = outer
        return name

    def path(self, target: str) -> str:
        return repr(f"{self.schema.name} v{self.version} {target.partition('.')[2] or 'element'}")

    def read(self, form: str, target: str) -> None:
        self.waiting.append((form, target))

    def then(self, text: str) -> None:
        """A line for after the waiting fields have been read."""
        self.after.append("    " * self.depth + text)

    def flush(self) -> None:
        if len(self.waiting) == 1 and self.waiting[0][0] == "B":
            self.line(f"{self.waiting[0][1]} = data[p]")
            self.line("p += 1")
        elif self.waiting:
            form = "".join(code for code, _ in self.waiting)
            targets = ", ".join(target for _, target in self.waiting)
            comma = "," if len(self.waiting) == 1 else ""
            self.line(f"{targets}{comma} = {self.codec(form, 'unpack_from')}(data, p)")
            self.line(f"p += {struct_module.calcsize('>' + form)}")
        self.lines.extend(self.after)
        self.waiting, self.after = [], []


class EncoderWriter(Writer):
    """Writes an encode function, which appends to the bytearray `out`.

    `waiting` holds the values of fixed size that will be packed by one `struct` call.
    """

    def __init__(self, schema: Schema, version: int, *, by_reference: bool) -> None:
        super().__init__(schema, version)
        self.by_reference = by_reference
        self.waiting: list[tuple[str, str]] = []
        self.names.update(
            uvarint=primitives.uvarint,
            ONE_BYTE=primitives.ONE_BYTE,
            encode_tags=primitives.encode_tags,
            records_size=primitives.records_size,
            records_bytes=primitives.records_bytes,
            append_records=primitives.append_records,
            absent_field=absent_field,
            too_long=too_long,
            pack=struct_module.pack,
        )

    def compile(self, message_type: type[Message]) -> Callable[[Any], Any]:
        if self.by_reference:
            self.line("chunks = []")
        self.line("out = bytearray()")
        self.write_struct(message_type, "message")
        self.flush()
        if self.by_reference:
            self.line("if out:")
            self.line("    chunks.append(out)")
            self.line("return chunks")
        else:
            self.line("return out")
        return self.made("encode", self.source("encode", "message"))

    def write_struct(self, struct: type[Struct], source: str) -> None:
        if self.schema.kind != "response":
            self.write_absence_checks(struct, source)
        for field in self.here(struct._fields):
            self.write_field(field, f"{source}.{field.name}")
        if self.flexible:
            self.write_tags(struct, source)

    def write_absence_checks(self, struct: type[Struct], source: str) -> None:
        """What this version cannot say must not be lost silently, unless Kafka says that it does not matter."""
        for field in struct._fields:
            if self.version not in field.versions and not field.ignorable:
                condition = self.differs(field, f"{source}.{field.name}")
                what = f"{self.schema.name} v{self.version} {field.name}"
                self.line(f"if {condition}:")
                self.line(f"    raise absent_field({what!r}, {source}.{field.name})")

    def differs(self, field: Field, value: str) -> str:
        """The condition under which `value` is not the field's default."""
        if field.kind == "struct":
            inner = [self.differs(each, f"{value}.{each.name}") for each in field.struct._fields]
            nullable = self.version in field.nullable
            if field.default_factory is not None:
                return " or ".join([f"{value} is None"] * nullable + inner) or "False"
            if nullable:
                return f"{value} is not None"
            return f"{value} is not None and ({' or '.join(inner) or 'True'})"
        if field.kind == "array" and field.default_factory is not None:
            return value if self.version not in field.nullable else f"{value} is None or {value}"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {self.literal(field.default)}"

    def write_field(self, field: Field, value: str) -> None:
        match field.kind:
            case "uuid":
                self.put("16s", f"{value}.int.to_bytes(16, 'big')")
            case kind if kind in FORMATS:
                self.put(FORMATS[kind], value)
            case "struct":
                self.write_inner_struct(field, value)
            case "array":
                self.write_array(field, value)
            case _:
                self.write_bytes(field, value)

    def write_inner_struct(self, field: Field, value: str) -> None:
        inner = self.fresh("inner")
        if self.version not in field.nullable:
            self.line(f"{inner} = {value}")
            self.write_struct(field.struct, inner)
            return
        self.flush()
        self.line(f"{inner} = {value}")
        self.line(f"if {inner} is None:")
        self.line(r"    out += b'\0'" if self.version in field.tagged else r"    out += b'\xff'")
        self.line("else:")
        self.depth += 1
        self.put("b", "1")
        self.write_struct(field.struct, inner)
        self.flush()
        self.depth -= 1

    def write_bytes(self, field: Field, value: str) -> None:
        data, count = self.fresh("b"), self.fresh("n")
        compact = self.flexible and field.flexible
        if self.version in field.nullable:
            self.line(f"{data} = {value}")
            self.line(f"if {data} is None:")
            self.line(f"    {count} = {0 if compact else -1}")
            if field.kind != "records":
                self.line(f"    {data} = b''")
            self.line("else:")
            self.depth += 1
            self.write_raw(field, data, data, count)
            self.depth -= 1
        else:
            self.write_raw(field, value, data, count)
        self.put_length(count, compact=compact, wide=field.kind != "string")
        if field.kind != "records":
            self.line(f"out += {data}")
            return
        self.line(f"if {data}:")
        if self.by_reference:
            self.line("    chunks.append(out)")
            self.line("    out = bytearray()")
            self.line(f"    append_records(chunks, {data})")
        else:
            self.line(f"    out += records_bytes({data})")

    def write_raw(self, field: Field, value: str, data: str, count: str) -> None:
        """Sets `data` to the bytes and `count` to what stands before them on the wire."""
        compact = self.flexible and field.flexible
        plus = " + 1" if compact else ""
        match field.kind:
            case "string":
                self.line(f"{data} = {value}.encode()")
                self.line(f"{count} = len({data}){plus}")
                self.line(f"if {count} > {primitives.STRING_MAX_BYTES + (1 if compact else 0)}:")
                self.line(f"    raise too_long({field.name!r}, len({data}))")
            case "records":
                if data != value:
                    self.line(f"{data} = {value}")
                self.line(f"{count} = records_size({data}){plus}")
            case _:
                if data != value:
                    self.line(f"{data} = {value}")
                self.line(f"{count} = len({data}){plus}")

    def write_array(self, field: Field, value: str) -> None:
        items, count = self.fresh("items"), self.fresh("n")
        self.line(f"{items} = {value}")
        length = f"len({items}) + 1" if self.flexible else f"len({items})"
        if self.version in field.nullable:
            self.line(f"if {items} is None:")
            self.line(f"    {count} = {0 if self.flexible else -1}")
            self.line(f"    {items} = ()")
            self.line("else:")
            self.line(f"    {count} = {length}")
        else:
            self.line(f"{count} = {length}")
        self.put_length(count, compact=self.flexible, wide=True)
        if field.element in NUMBERS:
            assert isinstance(field.element, str)
            self.line(f"if {items}:")
            self.line(f'    out += pack(f">{{len({items})}}{FORMATS[field.element]}", *{items})')
            return
        item = self.fresh("item")
        self.line(f"for {item} in {items}:")
        self.depth += 1
        if isinstance(field.element, type):
            self.write_struct(field.element, item)
        else:
            self.write_field(element_field(field, field.element), item)
        self.flush()
        self.depth -= 1

    def write_tags(self, struct: type[Struct], source: str) -> None:
        tagged = self.tagged(struct._fields)
        if not tagged:
            self.put("x", "")
            return
        self.flush()
        tags = self.fresh("tags")
        self.line(f"{tags} = None")
        for field in tagged:
            value = f"{source}.{field.name}"
            function = self.write_tag_function(field)
            self.line(f"if {self.differs(field, value)}:")
            self.line(f"    {tags} = {tags} or []")
            self.line(f"    {tags}.append(({field.tag}, {function}({value})))")
        self.line(f"out += encode_tags({tags}) if {tags} else b'\\0'")

    def write_tag_function(self, field: Field) -> str:
        name = self.fresh("tag_" + field.name)
        outer = (self.lines, self.depth, self.waiting, self.by_reference)
        self.lines, self.depth, self.waiting, self.by_reference = [], 1, [], False
        self.line("out = bytearray()")
        self.write_field(field, "value")
        self.flush()
        self.line("return out")
        self.functions.append(self.source(name, "value"))
        self.lines, self.depth, self.waiting, self.by_reference = outer
        return name

    def put(self, form: str, value: str) -> None:
        self.waiting.append((form, value))

    def put_length(self, count: str, *, compact: bool, wide: bool) -> None:
        """Packs what waits together with a length; a varint of more than one byte comes behind it."""
        if not compact:
            self.put("i" if wide else "h", count)
            self.flush()
        elif self.waiting:
            before = list(self.waiting)
            self.line(f"if {count} < 128:")
            self.depth += 1
            self.put("B", count)
            self.flush()
            self.depth -= 1
            self.line("else:")
            self.depth += 1
            self.waiting = before
            self.flush()
            self.line(f"out += uvarint({count})")
            self.depth -= 1
        else:
            self.line(f"out += ONE_BYTE[{count}] if {count} < 128 else uvarint({count})")

    def flush(self) -> None:
        if not self.waiting:
            return
        form = "".join(code for code, _ in self.waiting)
        values = ", ".join(value for _, value in self.waiting if value)
        self.line(f"out += {self.codec(form, 'pack')}({values})" if values else f"out += {bytes(len(form))!r}")
        self.waiting = []


def element_field(field: Field, kind: str) -> Field:
    """An array's element as a field of its own: never null."""
    element = Field(kind, "0+")
    element.name = field.name
    return element


def absent_field(what: str, value: object) -> ValueError:
    return ValueError(f"{what}: {value!r} cannot be said in this version")


def too_long(what: str, length: int) -> ValueError:
    return ValueError(f"{what}: {length} bytes, at most {primitives.STRING_MAX_BYTES} are allowed")
