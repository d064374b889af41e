// Example: reads an image and its label, or numbers, from a serialised tf.train.Example, and writes such a message.
//
// Format (tensorflow/core/example/{example,feature}.proto, protobuf wire format):
//   Example { Features features = 1 }   Features { map<string, Feature> feature = 1 }.
//   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3 } }.
//   Each list: repeated value = 1.
// A bounded parser without allocations reads the encoding that common writers produce. All other valid protobuf
// (unknown fields, split or merged messages, unpacked lists) goes through protobuf's generated parser. Both parsers
// accept the same records and return the same values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace carillon {

/// The names of the two features of a labelled image.
struct ExampleKeys {
  std::string image;  ///< bytes, exactly one value
  std::string label;  ///< int64, exactly one value; for parse_example_values any number, int64 or float
};

struct LabelledBytes {
  std::span<const std::uint8_t> image;  ///< as stored: pixels, or an image file
  std::int64_t label = 0;
};

/// Reads the two values from `record`, a serialised Example. The returned image points into `record` or `scratch`. If a
/// key occurs more than once, the last entry is used. Other features are ignored. Errors: data; the text names the
/// feature and the problem, but not the file and record.
LabelledBytes parse_example(std::span<const std::uint8_t> record, const ExampleKeys& keys, std::string& scratch);

/// An image with any number of values. At most one of the lists is not empty.
struct ExampleValues {
  std::span<const std::uint8_t> image;  ///< as in LabelledBytes
  std::vector<std::int64_t> integers;
  std::vector<float> floats;
};

/// Like parse_example, but the feature `keys.label` is int64 or float with any number of values. Slower: it uses
/// protobuf's parser and copies the image to `scratch`. Errors: data, as parse_example.
ExampleValues parse_example_values(std::span<const std::uint8_t> record, const ExampleKeys& keys, std::string& scratch);

/// Serialises an Example with the two values, for append_record (data/record.h).
std::string make_example(const ExampleKeys& keys, std::span<const std::uint8_t> image, std::int64_t label);

}  // namespace carillon
