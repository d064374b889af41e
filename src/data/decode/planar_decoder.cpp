#include <algorithm>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/labelled_images.h"
#include "src/data/decode/image_form.h"

namespace carillon {
namespace {

class PlanarDecoder final : public LabelledImageDecoder {
 public:
  explicit PlanarDecoder(RecordSchema schema) : LabelledImageDecoder(std::move(schema)) {
    check(image_shape().channels > 1, "planar images must have several channels");
  }

  void decode(std::span<const std::uint8_t> record, std::uint64_t /*position*/, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    copy_pixels(record, image, target);
  }

  /// Detects the channel order from images spread over the dataset.
  std::string find_fault(std::size_t record_count, const ReadImage& read) const override {
    constexpr std::size_t max_sample_count = 256;
    if (image_shape().height < 2) return {};  // one row shows no order
    ChannelOrder order(image_shape());
    const std::size_t sample_count = std::min(record_count, max_sample_count);
    std::vector<std::uint8_t> image(image_shape().bytes());
    for (std::size_t i = 0; i < sample_count; ++i) {
      read(i * record_count / sample_count, image);
      order.add(image);
    }
    if (!order.seems_interleaved()) return {};
    return fmt::format(
        "the images in feature '{}' look interleaved (HWC: red, green, blue of each pixel), not like planes (CHW): "
        "write all red values first, then green, then blue",
        schema().keys.image);
  }
};

}  // namespace

std::unique_ptr<RecordDecoder> make_planar_decoder(RecordSchema schema) {
  return std::make_unique<PlanarDecoder>(std::move(schema));
}

}  // namespace carillon
