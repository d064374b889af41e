#include "src/data/records/example_generated.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "carillon/core/error.h"
#include "src/core/printable.h"

namespace carillon {
namespace {

const proto::Feature& find_feature(const proto::Example& example, const std::string& key) {
  const auto& features = example.features().feature();
  if (const auto found = features.find(key); found != features.end()) return found->second;
  fail(ExitCode::data, "no feature '{}' (features: {})", key, describe_keys(example));
}

/// Values of feature `key`, which must have kind `wanted_kind` and exactly one value.
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
