// The generated tf.train.Example and how messages speak of it; for the parser's slow path, the writers and the
// inspector.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "carillon/data/example.h"
#include "data/records/example.pb.h"

namespace carillon {

/// "bytes", "float", "int64", or "empty".
std::string_view kind_name(proto::Feature::KindCase kind);

/// `key` fit for one line of a terminal: control characters escaped, long keys cut.
std::string printable_key(std::string_view key);

/// The sorted feature names of `example`: "'label', 'pixels'", "none".
std::string describe_keys(const proto::Example& example);

/// The Example with its features in the order of their keys, so that equal input gives equal files.
void serialise(const proto::Example& example, std::string& out);

/// Errors: data, without file and record.
void parse_generated(std::span<const std::uint8_t> record, proto::Example& example);

/// parse_example by the generated parser alone: its slow path, and the reference that tests and the fuzzer compare
/// with.
LabelledBytes parse_example_generated(std::span<const std::uint8_t> record, const ExampleKeys& keys,
                                      std::string& scratch);

}  // namespace carillon
