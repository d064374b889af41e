"""Reads TensorBoard's event files, independently of the tested code.

Records of Event { 2: step; 3: file_version; 4: graph_def; 5: Summary { 1: Value { 1: tag, 2: float, 4: Image { 4: PNG }
or 5: Histogram or 8: Tensor { 8: a text } } }; 7: SessionLog { 1: status, 1 being START } }.
Histogram { doubles 1: min, 2: max, 3: num, 4: sum, 5: sum_squares, repeated doubles 6: bucket_limit, 7: bucket }.
"""

import struct
from dataclasses import dataclass

import numpy as np

from tfrecords import fields, read_records

VERSION, GRAPH, SUMMARY, SESSION = 3, 4, 5, 7


@dataclass
class Histogram:
    min: float
    max: float
    count: float
    sum: float
    sum_squares: float
    limits: np.ndarray  # upper limits
    counts: np.ndarray


@dataclass
class Event:
    kind: int
    step: int
    content: object  # of a summary: [(tag, value)]; value: float, Histogram, text or bytes of an image


def files(train_dir):
    """Returns the event files in the order in which TensorBoard reads them."""
    return sorted(train_dir.glob("events.out.tfevents.*"))


def read_file(path):
    """Returns the Events of a file."""
    events = []
    for record in read_records(path):
        parts = dict(fields(record))
        (kind,) = set(parts) - {1, 2}
        content = [_value(value) for _, value in fields(parts[kind])] if kind == SUMMARY else parts[kind]
        events.append(Event(kind, parts.get(2, 0), content))
    return events


def is_start(event):
    """Returns whether the event is the SessionLog START of a run."""
    return event.kind == SESSION and dict(fields(event.content)).get(1) == 1


def shown(train_dir):
    """Returns {tag: [(step, value)]}, the values that TensorBoard shows. A START event discards all earlier values of
    its own step and of later steps."""
    values = {}
    for path in files(train_dir):
        for event in read_file(path):
            if is_start(event):
                values = {tag: [item for item in items if item[0] < event.step] for tag, items in values.items()}
            for tag, value in event.content if event.kind == SUMMARY else ():
                values.setdefault(tag, []).append((event.step, value))
    return values


def _value(data):
    parts = dict(fields(data))
    if 2 in parts:
        value = struct.unpack("<f", parts[2])[0]
    elif 8 in parts:
        plugin = dict(fields(dict(fields(parts[9]))[1]))[1]
        value = dict(fields(parts[8]))[8].decode() if plugin == b"text" else plugin
    else:
        value = _histogram(parts[5]) if 5 in parts else dict(fields(parts[4]))[4]
    return parts[1].decode(), value


def _histogram(data):
    doubles = {number: np.frombuffer(value, "<f8") for number, value in fields(data)}
    numbers = (float(doubles.get(number, [0.0])[0]) for number in range(1, 6))
    return Histogram(*numbers, doubles[6], doubles[7])
