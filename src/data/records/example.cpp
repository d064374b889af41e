#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "carillon/data/record.h"
#include "src/core/text.h"
#include "src/data/records/example_proto.h"

namespace carillon {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Bytes of tags: field number << 3 | wire type. The wire types are length-delimited (2) and varint (0).
constexpr std::uint8_t field1_bytes = 0x0A, field2_bytes = 0x12, field3_bytes = 0x1A, field1_varint = 0x08;
constexpr std::uint8_t varint_continues = 0x80;

/// Removes `tag`, a length and the bytes that the length counts from the front of `from`. Sets `body` to these bytes.
bool take(Bytes& from, std::uint8_t tag, Bytes& body) {
  constexpr std::size_t max_length_bytes = 4;  // the code reads lengths up to 2^28 - 1
  if (from.empty() || from[0] != tag) return false;
  std::size_t length = 0;
  for (std::size_t i = 0; i < max_length_bytes && i + 1 < from.size(); ++i) {
    const std::uint8_t byte = from[i + 1];
    length |= static_cast<std::size_t>(byte & 0x7F) << (7 * i);
    if (byte & varint_continues) continue;
    from = from.subspan(i + 2);
    if (length > from.size()) return false;
    body = from.first(length);
    from = from.subspan(length);
    return true;
  }
  return false;
}

/// Does the same as `take`, but returns false if more bytes follow in `from`.
bool take_all(Bytes from, std::uint8_t tag, Bytes& body) { return take(from, tag, body) && from.empty(); }

/// Returns true only if `packed` is a sequence of complete varints of at most 10 bytes, which is protobuf's limit.
/// Every longer varint contains an aligned group of 4 continuation bytes, so this function refuses such groups. Pixel
/// values never have such a group.
CARILLON_SIMD bool are_short_varints(const std::uint8_t* packed, std::size_t bytes) {
  if (bytes == 0) return true;
  if (packed[bytes - 1] & varint_continues) return false;
  constexpr std::uint32_t all_continue = varint_continues * 0x01010101u;
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < bytes / sizeof(std::uint32_t); ++i) {
    std::uint32_t group;
    std::memcpy(&group, packed + i * sizeof group, sizeof group);
    found |= (group & all_continue) == all_continue ? 1u : 0u;
  }
  return found == 0;
}

bool parse_varint(Bytes from, std::int64_t& value) {
  constexpr std::size_t max_bytes = 10;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < std::min(from.size(), max_bytes); ++i) {
    bits |= static_cast<std::uint64_t>(from[i] & 0x7F) << (7 * i);
    if (from[i] & varint_continues) continue;
    value = static_cast<std::int64_t>(bits);
    return i + 1 == from.size();
  }
  return false;
}

/// Parses Feature { bytes_list { value } } with one value.
bool parse_image(Bytes feature, Bytes& image) {
  Bytes list;
  return take_all(feature, field1_bytes, list) && take_all(list, field1_bytes, image);
}

/// Parses Feature { int64_list { value } } with one value, packed or not.
bool parse_label(Bytes feature, std::int64_t& label) {
  Bytes list, packed;
  if (!take_all(feature, field3_bytes, list) || list.empty()) return false;
  if (list[0] == field1_varint) return parse_varint(list.subspan(1), label);
  return take_all(list, field1_bytes, packed) && parse_varint(packed, label);
}

/// Returns true only if `feature` is valid. The list may be of any kind.
bool is_usual_feature(Bytes feature) {
  Bytes list, values;
  if (feature.empty()) return true;
  if (take_all(feature, field1_bytes, list)) {
    while (!list.empty())
      if (!take(list, field1_bytes, values)) return false;
    return true;
  }
  if (take_all(feature, field3_bytes, list))
    return list.empty() || (take_all(list, field1_bytes, values) && are_short_varints(values.data(), values.size()));
  if (take_all(feature, field2_bytes, list))
    return list.empty() || (take_all(list, field1_bytes, values) && values.size() % sizeof(float) == 0);
  return false;
}

bool is_ascii(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; });
}

/// Returns the image and the label of a record in the common encoding. Returns nullopt for any other encoding, valid or
/// not.
std::optional<LabelledBytes> parse_usual(Bytes record, const ExampleKeys& keys) {
  Bytes features, entry, key_bytes, feature;
  if (!take_all(record, field1_bytes, features)) return std::nullopt;
  LabelledBytes usual;
  bool has_image = false, has_label = false;
  while (!features.empty()) {
    if (!take(features, field1_bytes, entry) || !take(entry, field1_bytes, key_bytes) ||
        !take_all(entry, field2_bytes, feature))
      return std::nullopt;
    const std::string_view key(reinterpret_cast<const char*>(key_bytes.data()), key_bytes.size());
    if (key == keys.image) {
      if (!parse_image(feature, usual.image)) return std::nullopt;
      has_image = true;
    } else if (key == keys.label) {
      if (!parse_label(feature, usual.label)) return std::nullopt;
      has_label = true;
    } else if (!is_ascii(key) || !is_usual_feature(feature)) {  // protobuf refuses keys that are not valid UTF-8
      return std::nullopt;
    }
  }
  if (!has_image || !has_label) return std::nullopt;
  return usual;
}

}  // namespace

LabelledBytes parse_example(Bytes record, const ExampleKeys& keys, std::string& scratch) {
  if (const std::optional<LabelledBytes> usual = parse_usual(record, keys)) return *usual;
  return parse_example_generated(record, keys, scratch);
}

namespace {

const proto::Feature& find_feature(const proto::Example& example, const std::string& key) {
  const auto& features = example.features().feature();
  if (const auto found = features.find(key); found != features.end()) return found->second;
  fail(ExitCode::data, "no feature '{}' (features: {})", key, describe_keys(example));
}

/// Returns the values of feature `key`, which must have the kind `wanted_kind` and exactly one value.
template <typename List>
const List& single_value(const proto::Feature& feature, const List& list, const std::string& key,
                         proto::Feature::KindCase wanted_kind) {
  if (feature.kind_case() != wanted_kind)
    fail(ExitCode::data, "feature '{}' is {}, not {}", key, kind_name(feature.kind_case()), kind_name(wanted_kind));
  if (list.value_size() != 1) fail(ExitCode::data, "feature '{}' has {} values, not 1", key, list.value_size());
  return list;
}

}  // namespace

std::string_view kind_name(proto::Feature::KindCase kind) {
  switch (kind) {
    case proto::Feature::kBytesList:
      return "bytes";
    case proto::Feature::kFloatList:
      return "float";
    case proto::Feature::kInt64List:
      return "int64";
    case proto::Feature::KIND_NOT_SET:
      break;
  }
  return "empty";
}

std::string printable_key(std::string_view key) {
  constexpr std::size_t max_bytes = 64;
  return printable(key, max_bytes);
}

std::string describe_keys(const proto::Example& example) {
  constexpr std::size_t max_keys = 8;
  std::vector<std::string> keys;
  for (const auto& [key, feature] : example.features().feature())
    keys.push_back(fmt::format("'{}'", printable_key(key)));
  std::ranges::sort(keys);
  const std::size_t left_out = keys.size() - std::min(keys.size(), max_keys);
  keys.resize(keys.size() - left_out);
  if (keys.empty()) return "none";
  return fmt::format("{}{}", fmt::join(keys, ", "), left_out > 0 ? fmt::format(" and {} more", left_out) : "");
}

void serialise(const proto::Example& example, std::string& out) {
  out.clear();
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  example.SerializeToCodedStream(&coded);
}

void parse_generated(std::span<const std::uint8_t> record, proto::Example& example) {
  if (record.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    fail(ExitCode::data, "{} bytes are too many for a tf.train.Example", record.size());
  const google::protobuf::LogSilencer
      silencer;  // hides protobuf's UTF-8 log lines; the error below reports the failure
  if (!example.ParseFromArray(record.data(), static_cast<int>(record.size())))
    fail(ExitCode::data, "not a tf.train.Example: protobuf cannot parse its {} bytes", record.size());
}

LabelledBytes parse_example_generated(std::span<const std::uint8_t> record, const ExampleKeys& keys,
                                      std::string& scratch) {
  proto::Example example;
  parse_generated(record, example);
  const proto::Feature& image = find_feature(example, keys.image);
  const proto::Feature& label = find_feature(example, keys.label);
  scratch = single_value(image, image.bytes_list(), keys.image, proto::Feature::kBytesList).value(0);
  return {.image = {reinterpret_cast<const std::uint8_t*>(scratch.data()), scratch.size()},
          .label = single_value(label, label.int64_list(), keys.label, proto::Feature::kInt64List).value(0)};
}

ExampleValues parse_example_values(std::span<const std::uint8_t> record, const ExampleKeys& keys,
                                   std::string& scratch) {
  proto::Example example;
  parse_generated(record, example);
  const proto::Feature& image = find_feature(example, keys.image);
  const proto::Feature& values = find_feature(example, keys.label);
  if (values.kind_case() == proto::Feature::kBytesList) {
    fail(ExitCode::data, "feature '{}' is bytes, not int64 or float", keys.label);
  }
  scratch = single_value(image, image.bytes_list(), keys.image, proto::Feature::kBytesList).value(0);
  const auto& integers = values.int64_list().value();
  const auto& floats = values.float_list().value();
  return {.image = {reinterpret_cast<const std::uint8_t*>(scratch.data()), scratch.size()},
          .integers = {integers.begin(), integers.end()},
          .floats = {floats.begin(), floats.end()}};
}

std::string make_example(const ExampleKeys& keys, std::span<const std::uint8_t> image, std::int64_t label) {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features[keys.image].mutable_bytes_list()->add_value(image.data(), image.size());
  features[keys.label].mutable_int64_list()->add_value(label);
  std::string record;
  serialise(example, record);
  return record;
}

}  // namespace carillon
