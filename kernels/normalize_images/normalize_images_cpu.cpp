// normalize_images on a CPU, image by image, one row of a channel at a time.
#include <algorithm>
#include <array>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/normalize_images/normalize_images_math.h"
#include "kernels/shared/element_pointer.h"

namespace carillon {
namespace {

/// T: float or Bf16.
template <typename T>
class NormalizeImagesCpu final : public Op {
 public:
  NormalizeImagesCpu(const NormalizeImagesParams& params, const OpContext& context, const Tensor& output)
      : map_(params), step_(*context.step), output_(output) {
    for (std::int32_t c = 0; c < map_.channels; ++c) {
      for (std::size_t pixel = 0; pixel < pixel_values; ++pixel) {
        normalized_[static_cast<std::size_t>(c)][pixel] = stored_as<T>(map_.value(c, static_cast<std::uint8_t>(pixel)));
      }
    }
  }

  void forward(Stream& /*stream*/) override {
    const auto row = static_cast<std::size_t>(output_.shape.elements_per_sample());
    check(!map_.mirrors_by_record() || !step_.batch.records.empty(),
          "alternating mirroring requires the record numbers of the batch");
    parallel_items(step_.batch.images.size(), row, elementwise_grain, [&](std::size_t first, std::size_t last) {
      std::vector<std::int32_t> columns(static_cast<std::size_t>(map_.width));
      for (std::size_t b = first; b < last; ++b) {
        write_image(b, columns, sample_of(output_, static_cast<std::int64_t>(b)).as<T>());
      }
    });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  static constexpr std::size_t pixel_values = 256;

  /// `columns`: scratch, an element for each column of the image.
  void write_image(std::size_t b, std::vector<std::int32_t>& columns, T* out) const {
    const std::uint32_t record = map_.mirrors_by_record() ? step_.batch.records[b] : 0;
    const ImagePlacement placed = map_.placement(step_.batch.first_position + b, record);
    const std::int32_t channels = map_.channels, width = map_.width;
    const std::uint8_t* const image = step_.batch.images[b];
    for (std::int32_t x = 0; x < width; ++x) columns[static_cast<std::size_t>(x)] = map_.column_of(placed, x);
    for (std::int32_t y = 0; y < map_.height; ++y, out += width * channels) {
      const std::int32_t row = map_.row_of(placed, y);
      for (std::int32_t c = 0; c < channels; ++c) {
        const std::uint8_t* const pixels = row < 0 ? nullptr : image + (c * map_.height + row) * width;
        write_row(pixels, columns, normalized_[static_cast<std::size_t>(c)], out + c);
      }
    }
    cut_out(placed, out - output_.shape.elements_per_sample());
  }

  /// Writes one channel of a row. `pixels`: the image's pixels; null: black.
  void write_row(const std::uint8_t* pixels, const std::vector<std::int32_t>& columns,
                 const std::array<T, pixel_values>& normalized, T* out) const {
    for (const std::int32_t column : columns) {
      *out = normalized[pixels == nullptr || column < 0 ? 0 : pixels[column]];
      out += map_.channels;
    }
  }

  void cut_out(const ImagePlacement& placed, T* out) const {
    for (std::int32_t y = placed.cut_top; y < placed.cut_top + map_.cutout; ++y) {
      std::fill_n(out + (y * map_.width + placed.cut_left) * map_.channels, map_.cutout * map_.channels, T{});
    }
  }

  NormalizeImagesMap map_;
  const StepInputs& step_;
  Tensor output_;
  /// NormalizeImagesMap::value as T, [channel][pixel]
  std::array<std::array<T, pixel_values>, max_normalized_channels> normalized_{};
};

}  // namespace

std::unique_ptr<Op> make_normalize_images_cpu(const NormalizeImagesParams& params, const OpContext& context,
                                              const OpTensors& tensors) {
  const Tensor& output = tensors.outputs.at(0);
  return with_float_type(output.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<NormalizeImagesCpu<T>>(params, context, output);
  });
}

}  // namespace carillon
