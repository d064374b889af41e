#include "carillon/core/error.h"
#include "carillon/data/decoder.h"

namespace carillon {
namespace {

class GreyDecoder final : public RecordDecoder {
 public:
  explicit GreyDecoder(RecordSchema schema) : RecordDecoder(std::move(schema)) {
    check(image_shape().channels == 1, "grey images have one channel");
  }

  std::int32_t decode(std::span<const std::uint8_t> record, std::uint64_t /*position*/,
                      std::span<std::uint8_t> image) const override {
    return copy_pixels(record, image);
  }
};

}  // namespace

std::unique_ptr<RecordDecoder> make_grey_decoder(RecordSchema schema) {
  return std::make_unique<GreyDecoder>(std::move(schema));
}

}  // namespace carillon
