// Functions for the generated class of tf.train.Example, and descriptions of an Example for messages. The parser's slow
// path, the writers and the inspector use them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "carillon/data/record.h"
#include "data/records/example.pb.h"

namespace carillon {

/// Returns "bytes", "float", "int64" or "empty".
std::string_view kind_name(proto::Feature::KindCase kind);

/// Returns `key` in a form that can be printed on one line of a terminal: control characters are escaped, and long keys
/// are shortened.
std::string printable_key(std::string_view key);

/// Returns the sorted feature names of `example`, for example "'label', 'pixels'", or "none" if it has none.
std::string describe_keys(const proto::Example& example);

/// Writes the Example with its features sorted by key, so that equal input gives equal files.
void serialise(const proto::Example& example, std::string& out);

/// Parses with the generated parser. Errors: data (the text does not name file and record).
void parse_generated(std::span<const std::uint8_t> record, proto::Example& example);

/// Does the same as parse_example, but uses only the generated parser. The function is the slow path of parse_example,
/// and the reference for tests and the fuzzer.
LabelledBytes parse_example_generated(std::span<const std::uint8_t> record, const ExampleKeys& keys,
                                      std::string& scratch);

}  // namespace carillon
