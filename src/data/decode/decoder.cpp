#include "carillon/data/decoder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "carillon/core/error.h"

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

}  // namespace carillon
