#include "carillon/core/error.h"
#include "carillon/data/labelled_images.h"

namespace carillon {
namespace {

class GreyDecoder final : public LabelledImageDecoder {
 public:
  explicit GreyDecoder(RecordSchema schema) : LabelledImageDecoder(std::move(schema)) {
    check(image_shape().channels == 1, "grey images must have one channel");
  }

  void decode(std::span<const std::uint8_t> record, std::uint64_t /*position*/, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    copy_pixels(record, image, target);
  }
};

}  // namespace

std::unique_ptr<RecordDecoder> make_grey_decoder(RecordSchema schema) {
  return std::make_unique<GreyDecoder>(std::move(schema));
}

}  // namespace carillon
