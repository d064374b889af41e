// normalize_images on a CPU, image by image, one row of a channel at a time.
#include <algorithm>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/normalize_images/normalize_images_math.h"
#include "kernels/shared/element_pointer.h"

namespace carillon {
namespace {

class NormalizeImagesCpu final : public Op {
 public:
  NormalizeImagesCpu(const NormalizeImagesParams& params, const OpContext& context, const Tensor& output)
      : map_(params), step_(*context.step), output_(output) {}

  void forward(Stream& /*stream*/) override {
    const auto row = static_cast<std::size_t>(output_.shape.elements_per_sample());
    check(!map_.mirrors_by_record() || !step_.batch.records.empty(),
          "alternating mirroring requires the record numbers of the batch");
    parallel_items(step_.batch.images.size(), row, elementwise_grain, [&](std::size_t first, std::size_t last) {
      with_float_type(output_.type, [&]<typename T>(std::type_identity<T>) {
        for (std::size_t b = first; b < last; ++b)
          write_image(b, sample_of(output_, static_cast<std::int64_t>(b)).as<T>());
      });
    });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  template <typename T>
  void write_image(std::size_t b, T* out) const {
    const std::uint32_t record = map_.mirrors_by_record() ? step_.batch.records[b] : 0;
    const ImagePlacement placed = map_.placement(step_.batch.first_position + b, record);
    const std::int32_t channels = map_.channels, width = map_.width;
    const std::uint8_t* const image = step_.batch.images[b];
    for (std::int32_t y = 0; y < map_.height; ++y, out += width * channels) {
      const std::int32_t row = map_.row_of(placed, y);
      for (std::int32_t c = 0; c < channels; ++c) {
        const std::uint8_t* const pixels = row < 0 ? nullptr : image + (c * map_.height + row) * width;
        write_row(placed, pixels, c, out + c);
      }
    }
    cut_out(placed, out - output_.shape.elements_per_sample());
  }

  /// Channel `c` of one row, from the image's `pixels`; null: black.
  template <typename T>
  void write_row(const ImagePlacement& placed, const std::uint8_t* pixels, std::int32_t c, T* out) const {
    for (std::int32_t x = 0; x < map_.width; ++x) {
      const std::int32_t column = map_.column_of(placed, x);
      out[x * map_.channels] = stored_as<T>(map_.value(c, pixels == nullptr || column < 0 ? 0 : pixels[column]));
    }
  }

  template <typename T>
  void cut_out(const ImagePlacement& placed, T* out) const {
    for (std::int32_t y = placed.cut_top; y < placed.cut_top + map_.cutout; ++y) {
      std::fill_n(out + (y * map_.width + placed.cut_left) * map_.channels, map_.cutout * map_.channels, T{});
    }
  }

  NormalizeImagesMap map_;
  const StepInputs& step_;
  Tensor output_;
};

}  // namespace

std::unique_ptr<Op> make_normalize_images_cpu(const NormalizeImagesParams& params, const OpContext& context,
                                              const OpTensors& tensors) {
  return std::make_unique<NormalizeImagesCpu>(params, context, tensors.outputs.at(0));
}

}  // namespace carillon
