// The definition of normalize_images, and the op on a CPU, image by image, one row of a channel at a time.
#include "kernels/normalize_images/normalize_images.h"

#include <algorithm>
#include <array>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/normalize_images/normalize_images_kernels.h"
#include "kernels/shared/backend.h"
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

std::unique_ptr<Op> make_cpu(const NormalizeImagesParams& params, const OpContext& context, const OpTensors& tensors) {
  const Tensor& output = tensors.outputs.at(0);
  return with_float_type(output.type, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Op> {
    return std::make_unique<NormalizeImagesCpu<T>>(params, context, output);
  });
}

class NormalizeImagesDefinition final : public OpDefinition {
 public:
  explicit NormalizeImagesDefinition(NormalizeImagesParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "normalize_images"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    check(!NormalizeImagesMap(params_).mirrors_by_record() || params_.record_count > 0,
          "normalize_images requires record_count for alternating mirroring");
    return on_device(
        context, [&] { return make_cpu(params_, context, tensors); },
        [&] { return make_normalize_images_cuda(params_, context, tensors); });
  }

 private:
  NormalizeImagesParams params_;
};

const OpTraits normalize_images_traits{.pads_channels = true};

}  // namespace

const OpType normalize_images_op{
    .name = "normalize_images",
    .input_count = 0,
    .reads_records = true,
    .build = [](Graph& graph, const std::string& name, std::span<const Value>, const Attributes& attributes) {
      auto params = params_of<NormalizeImagesParams>(attributes);
      const GraphContext& context = graph.context();
      params.source = {context.image.channels, context.image.height, context.image.width};
      params.record_count = context.record_count;
      params.distort = context.distort && context.training;
      params.seed = context.seed;
      return outputs_of(normalize_images(graph, name, params));
    }};

Value normalize_images(Graph& graph, const std::string& name, const NormalizeImagesParams& params) {
  const Shape& source = params.source;
  check(source.rank() == 3 && source[0] >= 1 && source[0] <= static_cast<std::int64_t>(max_normalized_channels),
        "normalize_images requires a source of [channels, height, width] with 1 to 4 channels");
  const std::int64_t extent = std::min(source[1], source[2]);
  check(params.padding >= 0 && params.padding < extent,
        "normalize_images requires a padding below the image's extents");
  check(params.cutout >= 0 && params.cutout <= extent, "normalize_images requires a cutout that fits into the image");
  check(std::ranges::all_of(params.deviation, [](float deviation) { return deviation > 0.0f; }),
        "normalize_images requires deviations above 0");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<NormalizeImagesDefinition>(params),
                       .inputs = {},
                       .traits = normalize_images_traits,
                       .type = &normalize_images_op,
                       .attributes = attributes_of(params)},
                      {graph.batch_size(), source[1], source[2], source[0]});
}

}  // namespace carillon
