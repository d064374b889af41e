#include "carillon/data/labelled_images.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "carillon/core/error.h"
#include "src/data/decode/image_form.h"

namespace carillon {
namespace {

void store(std::int64_t number, std::span<std::byte> target) {
  const auto value = static_cast<std::int32_t>(number);
  std::memcpy(target.data(), &value, sizeof value);
}

}  // namespace

LabelledImageDecoder::LabelledImageDecoder(RecordSchema schema)
    : RecordDecoder(schema.image_shape, {.type = DType::i32, .shape = {}}), schema_(std::move(schema)) {
  check(schema_.class_count > 0, "labelled images require at least one class");
}

void LabelledImageDecoder::write_synthetic_target(std::size_t i, std::span<std::byte> target) const {
  store(static_cast<std::int64_t>(i) % schema_.class_count, target);
}

void LabelledImageDecoder::write_class(std::int64_t label, std::span<std::byte> target) const {
  const std::int64_t first = schema_.first_label, last = first + schema_.class_count - 1;
  if (label < first || label > last) {
    fail(ExitCode::data, "feature '{}' is {}, outside {}..{}", schema_.keys.label, label, first, last);
  }
  store(label - first, target);
}

void LabelledImageDecoder::copy_pixels(std::span<const std::uint8_t> record, std::span<std::uint8_t> image,
                                       std::span<std::byte> target) const {
  std::string scratch;
  const LabelledBytes found = parse_example(record, schema_.keys, scratch);
  const std::size_t bytes = schema_.image_shape.bytes();
  if (found.image.size() != bytes) {
    fail(ExitCode::data, "feature '{}' has {} bytes, not {}{}", schema_.keys.image, found.image.size(), bytes,
         describe_image_form(found.image));
  }
  write_class(found.label, target);
  std::ranges::copy(found.image, image.begin());
}

}  // namespace carillon
