// Example: one labelled image out of a serialised tf.train.Example, by a bounded parser of the usual encoding.
//
// Format (tensorflow/core/example/{example,feature}.proto, protobuf wire format):
//   Example { Features features = 1 }   Features { map<string, Feature> feature = 1 }
//   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3 } }, lists: value =
//   1
// What any usual writer emits is parsed here without allocating; whatever else is valid protobuf (unknown fields, split
// or merged messages, unpacked lists) goes through protobuf's generated parser. Both give the same verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace carillon {

/// What a record must hold to be accepted.
struct RecordSchema {
  std::string image_key;        ///< bytes feature with exactly one value of `image_bytes` bytes
  std::string label_key;        ///< int64 feature with exactly one value in [0, class_count)
  std::size_t image_bytes = 0;  ///< bytes per image, e.g. 784 = 28 x 28 uint8
  std::int64_t class_count = 0;
  std::size_t channel_count = 1;  ///< planes of a square image, one after the other (CHW)
};

/// Copies the image of `record`, a serialised Example, to `image` (schema.image_bytes long) and returns its label.
/// Where a key occurs more than once, its last entry counts; other features are ignored.
/// Errors: data, naming the feature and what is wrong, without file and record.
std::int32_t decode_example(std::span<const std::uint8_t> record, const RecordSchema& schema,
                            std::span<std::uint8_t> image);

/// The same by protobuf's generated parser alone: the reference that tests and the fuzzer compare with.
std::int32_t decode_example_generated(std::span<const std::uint8_t> record, const RecordSchema& schema,
                                      std::span<std::uint8_t> image);

}  // namespace carillon
