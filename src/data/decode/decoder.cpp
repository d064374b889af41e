#include "carillon/data/decoder.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/data/decode/image_form.h"

namespace carillon {

RecordDecoder::RecordDecoder(RecordSchema schema) : schema_(std::move(schema)) {
  check(schema_.image_shape.bytes() > 0 && schema_.class_count > 0, "images of no bytes, or of no class");
}

std::string RecordDecoder::find_fault(std::size_t /*record_count*/, const ReadImage& /*read*/) const { return {}; }

std::int32_t RecordDecoder::checked_label(std::int64_t label) const {
  const std::int64_t first = schema_.first_label, last = first + schema_.class_count - 1;
  if (label < first || label > last) {
    fail(ExitCode::data, "feature '{}' is {}, not in {}..{}", schema_.keys.label, label, first, last);
  }
  return static_cast<std::int32_t>(label - first);
}

std::int32_t RecordDecoder::copy_pixels(std::span<const std::uint8_t> record, std::span<std::uint8_t> image) const {
  std::string scratch;
  const LabelledBytes found = parse_example(record, schema_.keys, scratch);
  const std::size_t bytes = schema_.image_shape.bytes();
  if (found.image.size() != bytes) {
    fail(ExitCode::data, "feature '{}' has {} bytes, not {}{}", schema_.keys.image, found.image.size(), bytes,
         describe_image_form(found.image));
  }
  const std::int32_t label = checked_label(found.label);
  std::ranges::copy(found.image, image.begin());
  return label;
}

}  // namespace carillon
