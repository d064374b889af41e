#include "carillon/core/error.h"
#include "carillon/data/labelled_images.h"

namespace carillon {
namespace {

class PictureDecoder final : public LabelledImageDecoder {
 public:
  PictureDecoder(RecordSchema schema, const PictureDecoding& decoding)
      : LabelledImageDecoder(std::move(schema)), decoding_(decoding) {
    check(image_shape().channels == 3, "decoded pictures must have three channels");
  }

  void decode(std::span<const std::uint8_t> record, std::uint64_t position, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    std::string scratch;
    const std::span<const std::uint8_t> file = read(record, target, scratch);
    thread_local ViewMemory memory;
    try {
      PictureView view = view_of(picture_info(file), position);
      view.background = decoding_.background;
      view.padding = decoding_.padding;
      render_view(file, view, decoding_.resampling, memory, image);
      if (decoding_.distorts) augment(position, image);
    } catch (const Error& error) {
      fail(error.code(), "feature '{}' {}", schema().keys.image, error.what());
    }
  }

  bool draws() const override { return decoding_.distorts; }
  bool is_slow() const override { return true; }

 private:
  PictureView view_of(const PictureInfo& picture, std::uint64_t position) const {
    const std::int64_t height = image_shape().height, width = image_shape().width;
    if (!decoding_.distorts) return fitted_view(picture, decoding_.fit, decoding_.shorter, height, width);
    PhiloxDraws draws(decoding_.seed, RandomPurpose::cropping, position);
    const bool is_drawn = draws.below(2) == 1;  // always, so that the crops do not depend on `mirrors`
    PictureView view = random_view(picture, decoding_.fit, decoding_.crop, draws, height, width);
    view.mirrored = is_drawn && decoding_.mirrors;
    return view;
  }

  void augment(std::uint64_t position, std::span<std::uint8_t> image) const {
    thread_local std::vector<std::uint8_t> scratch;
    const AugmentedImage augmented{image, image_shape().height, image_shape().width, scratch};
    if (decoding_.flips || decoding_.turns) {
      PhiloxDraws draws(decoding_.seed, RandomPurpose::orientation, position);
      random_orientation(decoding_.flips, decoding_.turns, draws, augmented);
    }
    if (decoding_.color_jitter > 0.0) {
      PhiloxDraws draws(decoding_.seed, RandomPurpose::color_jitter, position);
      color_jitter(decoding_.color_jitter, draws, augmented);
    }
    if (decoding_.augment.op_count > 0) {
      PhiloxDraws draws(decoding_.seed, RandomPurpose::rand_augment, position);
      rand_augment(decoding_.augment, draws, augmented);
    }
    if (decoding_.erasing > 0.0) {
      PhiloxDraws draws(decoding_.seed, RandomPurpose::erasing, position);
      random_erasing(decoding_.erasing, decoding_.erasing_fill, draws, augmented);
    }
  }

  PictureDecoding decoding_;
};

}  // namespace

std::unique_ptr<RecordDecoder> make_picture_decoder(RecordSchema schema, const PictureDecoding& decoding) {
  return std::make_unique<PictureDecoder>(std::move(schema), decoding);
}

}  // namespace carillon
