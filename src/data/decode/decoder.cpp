#include "carillon/data/decoder.h"

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"

namespace carillon {

RecordDecoder::RecordDecoder(const ImageShape& image_shape, TargetSpec target_spec)
    : image_shape_(image_shape), target_spec_(std::move(target_spec)) {
  check(image_shape_.bytes() > 0 && target_spec_.bytes() > 0,
        "a decoder requires images and targets of at least one byte");
}

void RecordDecoder::write_synthetic_target(std::size_t /*i*/, std::span<std::byte> target) const {
  std::ranges::fill(target, std::byte{0});
}

std::string RecordDecoder::find_fault(std::size_t /*record_count*/, const ReadImage& /*read*/) const { return {}; }

}  // namespace carillon
