// Example: an image's bytes and its label out of a serialised tf.train.Example, by a bounded parser of the usual
// encoding; and one made of those.
//
// Format (tensorflow/core/example/{example,feature}.proto, protobuf wire format):
//   Example { Features features = 1 }   Features { map<string, Feature> feature = 1 }
//   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3 } }, lists: value =
//   1
// What any usual writer emits is parsed here without allocating; whatever else is valid protobuf (unknown fields, split
// or merged messages, unpacked lists) goes through protobuf's generated parser. Both give the same verdict.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace carillon {

/// The names of the two features of a labelled image.
struct ExampleKeys {
  std::string image;  ///< bytes, exactly one value
  std::string label;  ///< int64, exactly one value
};

struct LabelledBytes {
  std::span<const std::uint8_t> image;  ///< as stored: pixels, or a file of some format
  std::int64_t label = 0;
};

/// The two values in `record`, a serialised Example; the image lies in `record` or in `scratch`. Where a key occurs
/// more than once, its last entry counts; other features are ignored. Errors: data, naming the feature and what is
/// wrong, without file and record.
LabelledBytes parse_example(std::span<const std::uint8_t> record, const ExampleKeys& keys, std::string& scratch);

/// A serialised Example of the two values, for append_record (data/record.h).
std::string make_example(const ExampleKeys& keys, std::span<const std::uint8_t> image, std::int64_t label);

}  // namespace carillon
