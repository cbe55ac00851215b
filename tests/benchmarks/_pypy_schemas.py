"""Stands in for `scaler/wire/codec/schemas.py` where there is no pycapnp: the same calls, made of capnpy's.

Used by the copy that `pypy.py` makes. The schema files of the copy say to capnpy that texts are `str`.
"""

import re
from pathlib import Path

import capnpy

_LINE = re.compile(r"^ *(?:struct (\w+)|(\w+) @\d+ :([\w.()]+))")


def schema_directory():
    return Path(__file__).resolve().parents[3] / "protocol"


def read(schema, data):
    return _Reader(schema.kind.loads(bytes(data)))


def first_line(error):
    return str(error).partition("\n")[0]


def utf8(text):
    return text.encode("utf-8", "backslashreplace")


def _snake_case(name):
    return re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name)


class _Field:
    """A field of a struct, as the codec asks for it."""

    def __init__(self, file, name, kind):
        self._file, self._kind = file, kind
        self.name = _snake_case(name)
        self.is_text = kind in ("Text", "List(Text)")

    @property
    def schema(self):
        """The schema of the struct that is its value."""
        name = self._kind.rpartition(".")[2]
        file = SCHEMAS["common"] if self._kind.startswith("Common.") else self._file
        return getattr(file, name)


class _Struct:
    """A struct of a schema file."""

    def __init__(self, file, name, kind):
        self.kind = kind
        self.fields = {field: _Field(file, field, of) for field, of in file.fields[name].items()}
        self.schema = self
        self.makers = {field: getattr(kind, "new_" + _snake_case(field), None) for field in self.fields}
        batch = file.module.__dict__.get(name + "_Batch")
        if batch is not None:
            self.Batch = _Struct(file, name + "_Batch", batch)

    def new_message(self, **values):
        message = _Builder(self)
        for name, value in values.items():
            message._set(name, value)
        return message


class _Builder:
    """A message that is being written: capnpy makes structs in one go, so the values are collected."""

    __slots__ = ("_chosen", "_schema", "_values")

    def __init__(self, schema):
        self._schema, self._values, self._chosen = schema, {}, None

    def _set(self, name, value):
        field = self._schema.fields[name]
        if field.is_text:
            value = [text.decode() for text in value] if isinstance(value, list) else value.decode()
        self._values[field.name] = value

    def init(self, name, count=None):
        schema = self._schema
        if count is not None:
            made = self._values[name] = [_Builder(schema.Batch) for _ in range(count)]
            return made
        self._chosen = name, _Builder(schema.fields[name].schema)
        return self._chosen[1]

    def made(self):
        if self._chosen is not None:
            name, value = self._chosen
            return self._schema.makers[name](value.made())
        values = self._values
        if "batches" in values:
            values["batches"] = [batch.made() for batch in values["batches"]]
        return self._schema.kind(**values)

    def to_bytes(self):
        return self.made().dumps()


class _Reader:
    """A message, or a struct in it, that is being read."""

    __slots__ = ("_struct",)

    def __init__(self, struct_):
        self._struct = struct_

    def _get_by_field(self, field):
        value = getattr(self._struct, field.name)
        if value is None:
            return ()
        if field.name == "batches":
            return [_Reader(batch) for batch in value]
        return _Reader(value) if isinstance(value, capnpy.struct_.Struct) else value

    def _which_str(self):
        name = _WHICH.get(type(self._struct))
        if name is None:
            tags = type(self._struct).__tag__.__members__
            name = _WHICH[type(self._struct)] = [re.sub("_(.)", lambda found: found[1].upper(), tag) for tag in tags]
        return name[int(self._struct.which())]

    def __getattr__(self, name):
        value = getattr(self._struct, _snake_case(name))
        return () if value is None else value


_WHICH = {}


class _File:
    """A schema file."""

    def __init__(self, name):
        self.module = capnpy.load_schema(importname="/" + name + ".capnp")
        self.fields = {}
        outer = struct_name = ""
        for line in (schema_directory() / (name + ".capnp")).read_text().splitlines():
            found = _LINE.match(line)
            if found and found[1]:
                outer, struct_name = (outer, outer + "_" + found[1]) if line[0] == " " else (found[1], found[1])
                self.fields[struct_name] = {}
            elif found:
                self.fields[struct_name][found[2]] = found[3]
            elif line == "  }":
                struct_name = outer

    def __getattr__(self, name):
        made = _Struct(self, name, getattr(self.module, name))
        setattr(self, name, made)
        return made


class _Schemas(dict):
    def __missing__(self, name):
        made = self[name] = _File(name)
        return made


SCHEMAS = _Schemas()
