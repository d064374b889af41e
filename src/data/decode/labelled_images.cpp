// The defaults of all decoders, and the targets of labelled images.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/decoder.h"

namespace carillon {

RecordDecoder::RecordDecoder(const ImageShape& image_shape, TargetSpec target_spec)
    : image_shape_(image_shape), target_spec_(std::move(target_spec)) {
  check(image_shape_.bytes() > 0 && target_spec_.bytes() > 0,
        "a decoder requires images and targets of at least one byte");
}

void RecordDecoder::decode_target(std::span<const std::uint8_t> record, std::span<std::byte> target) const {
  std::vector<std::uint8_t> image(image_shape_.bytes());
  decode(record, 0, image, target);
}

void RecordDecoder::write_synthetic_target(std::size_t /*i*/, std::span<std::byte> target) const {
  std::ranges::fill(target, std::byte{0});
}

std::string RecordDecoder::find_fault(std::size_t /*record_count*/, const ReadImage& /*read*/) const { return {}; }

namespace {

void store(std::int64_t number, std::span<std::byte> target) {
  const auto value = static_cast<std::int32_t>(number);
  std::memcpy(target.data(), &value, sizeof value);
}

/// Writes number `i` of a target.
void store_number(double number, std::size_t i, std::span<std::byte> target) {
  const auto value = static_cast<float>(number);
  std::memcpy(target.data() + i * sizeof value, &value, sizeof value);
}

struct FileKind {
  std::string_view magic, name;
};
constexpr FileKind file_kinds[] = {{"\x89PNG", "PNG"}, {"\xFF\xD8\xFF", "JPEG"}, {"GIF8", "GIF"}};

constexpr std::size_t cifar10_source_record_bytes = 3073;

/// Guesses the format of an image from its first bytes and length. Returns, for example, ": looks like a PNG file", or
/// an empty text if the format is unknown.
std::string describe_image_form(std::span<const std::uint8_t> image) {
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  for (const FileKind& kind : file_kinds)
    if (text.starts_with(kind.magic)) return fmt::format(": looks like a {} file, not like pixels", kind.name);
  if (image.size() == cifar10_source_record_bytes)
    return ": looks like a record of CIFAR-10's binary version, with its label";
  for (const std::size_t value_bytes : {sizeof(std::uint8_t), sizeof(float)})
    for (const std::size_t side : {24, 28, 32}) {
      const std::string_view type = value_bytes == sizeof(float) ? " of float32" : "";
      if (image.size() == side * side * value_bytes)
        return fmt::format(": looks like a grey {}x{} image{}", side, side, type);
      if (image.size() == side * side * 3 * value_bytes) return fmt::format(": looks like {}x{}x3{}", side, side, type);
    }
  return "";
}

}  // namespace

TargetSpec target_spec_of(const RecordSchema& schema) {
  check(schema.class_count > 0, "labelled images require at least one class");
  switch (schema.target) {
    case TargetKind::labels:
      return {.type = DType::u8, .shape = {schema.class_count}};
    case TargetKind::numbers:
      return {.type = DType::f32, .shape = {schema.class_count}};
    default:
      return {.type = DType::i32, .shape = {}};
  }
}

LabelledImageDecoder::LabelledImageDecoder(RecordSchema schema)
    : RecordDecoder(schema.image_shape, target_spec_of(schema)), schema_(std::move(schema)) {
  check(schema_.scales.empty() || std::ssize(schema_.scales) == schema_.class_count, "one scale for each number");
}

void LabelledImageDecoder::decode_target(std::span<const std::uint8_t> record, std::span<std::byte> target) const {
  std::string scratch;
  read(record, target, scratch);
}

void LabelledImageDecoder::write_synthetic_target(std::size_t i, std::span<std::byte> target) const {
  const auto count = static_cast<std::size_t>(schema_.class_count);
  if (schema_.target == TargetKind::class_index) {
    store(static_cast<std::int64_t>(i % count), target);
  } else if (schema_.target == TargetKind::labels) {
    std::ranges::fill(target, std::byte{0});
    target[i % count] = std::byte{1};
  } else {
    for (std::size_t j = 0; j < count; ++j) store_number(static_cast<double>((i + j) % 9) / 4.0 - 1.0, j, target);
  }
}

void LabelledImageDecoder::write_class(std::int64_t label, std::span<std::byte> target) const {
  const std::int64_t first = schema_.first_label, last = first + schema_.class_count - 1;
  if (label < first || label > last) {
    fail(ExitCode::data, "feature '{}' is {}, outside {}..{} (the number of classes and the first label)",
         schema_.keys.label, label, first, last);
  }
  store(label - first, target);
}

void LabelledImageDecoder::write_labels(std::span<const std::int64_t> labels, std::span<std::byte> target) const {
  const std::int64_t first = schema_.first_label, last = first + schema_.class_count - 1;
  std::ranges::fill(target, std::byte{0});
  for (const std::int64_t label : labels) {
    if (label < first || label > last) {
      fail(ExitCode::data, "feature '{}' has the label {}, outside {}..{}", schema_.keys.label, label, first, last);
    }
    target[static_cast<std::size_t>(label - first)] = std::byte{1};
  }
}

void LabelledImageDecoder::write_numbers(const ExampleValues& values, std::span<std::byte> target) const {
  std::vector<double> numbers(values.floats.begin(), values.floats.end());
  numbers.insert(numbers.end(), values.integers.begin(), values.integers.end());
  if (std::ssize(numbers) != schema_.class_count) {
    fail(ExitCode::data, "feature '{}' has {} numbers, not {}", schema_.keys.label, numbers.size(),
         schema_.class_count);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double number = schema_.scales.empty() ? numbers[i] : schema_.scales[i].standardised(numbers[i]);
    if (!std::isfinite(static_cast<float>(number))) {
      fail(ExitCode::data, "feature '{}' has the number {}, which is not finite or too large", schema_.keys.label,
           numbers[i]);
    }
    store_number(number, i, target);
  }
}

std::span<const std::uint8_t> LabelledImageDecoder::read(std::span<const std::uint8_t> record,
                                                         std::span<std::byte> target, std::string& scratch) const {
  if (schema_.target == TargetKind::class_index) {
    const LabelledBytes found = parse_example(record, schema_.keys, scratch);
    write_class(found.label, target);
    return found.image;
  }
  const ExampleValues found = parse_example_values(record, schema_.keys, scratch);
  if (schema_.target == TargetKind::numbers) {
    write_numbers(found, target);
  } else if (found.floats.empty()) {
    write_labels(found.integers, target);
  } else {
    fail(ExitCode::data, "feature '{}' is float, not int64", schema_.keys.label);
  }
  return found.image;
}

std::span<const std::uint8_t> LabelledImageDecoder::read_values(std::span<const std::uint8_t> record,
                                                                std::span<std::byte> target,
                                                                std::string& scratch) const {
  const std::span<const std::uint8_t> found = read(record, target, scratch);
  const std::size_t bytes = schema_.image_shape.bytes();
  if (found.size() != bytes) {
    fail(ExitCode::data, "feature '{}' has {} bytes, not {}{}", schema_.keys.image, found.size(), bytes,
         describe_image_form(found));
  }
  return found;
}

std::unique_ptr<RecordDecoder> RecordForm::decoder(const RecordKeys& keys, RecordUse use) const {
  RecordSchema replaced = schema;
  if (!keys.image.empty()) replaced.keys.image = keys.image;
  if (!keys.target.empty()) replaced.keys.label = keys.target;
  return make_decoder(std::move(replaced), use);
}

}  // namespace carillon
