// The definition of cifar_distort, and the op on a CPU, image by image in the first-level cache: the crop as contiguous
// planes, their sums, the map to the output.
#include "kernels/cifar_distort/cifar_distort.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "carillon/core/parallel.h"
#include "kernels/cifar_distort/cifar_distort_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/element_pointer.h"
#include "kernels/shared/thread_scratch.h"

namespace carillon {
namespace {

/// Extents of one channel of an image, in pixels.
struct Plane {
  std::size_t height, width;
  std::size_t pixels() const { return height * width; }
};

/// planes[c, y, x] = the crop, [channels, crop.height, crop.width].
CARILLON_SIMD void gather_crop(const std::uint8_t* __restrict image, Plane source, Plane crop, std::size_t channels,
                               const CifarDistortDraw& draw, std::uint8_t* __restrict planes) {
  for (std::size_t c = 0; c < channels; ++c) {
    const std::uint8_t* row = image + c * source.pixels() + draw.offset_y * source.width + draw.offset_x;
    for (std::size_t y = 0; y < crop.height; ++y, row += source.width, planes += crop.width) {
      if (draw.flip) {
        for (std::size_t x = 0; x < crop.width; ++x) planes[x] = row[crop.width - 1 - x];
      } else {
        for (std::size_t x = 0; x < crop.width; ++x) planes[x] = row[x];
      }
    }
  }
}

CARILLON_SIMD ChannelSums sums_of(const std::uint8_t* values, std::size_t count) {
  constexpr std::size_t piece = 32768;  // sums of 32768 squared bytes fit into 32 bits
  ChannelSums sums;
  for (std::size_t begin = 0; begin < count; begin += piece) {
    std::uint32_t piece_sum = 0, piece_squares = 0;
    for (std::size_t i = begin; i < std::min(begin + piece, count); ++i) {
      const std::uint32_t value = values[i];
      piece_sum += value;
      piece_squares += value * value;
    }
    sums.values += piece_sum;
    sums.squares += piece_squares;
  }
  return sums;
}

/// out[pixel, c] = map of planes[c, pixel].
template <int channels, typename T>
[[gnu::always_inline]] inline void map_pixels(const ImageMap& given, const std::uint8_t* __restrict planes,
                                              std::size_t pixels, T* __restrict out) {
  const ImageMap map = given;
  for (std::size_t i = 0; i < pixels; ++i) {
    for (int c = 0; c < channels; ++c) out[i * channels + c] = stored_as<T>(map_value(map, c, planes[c * pixels + i]));
  }
}

template <typename T>
[[gnu::always_inline]] inline void map_image_of(const ImageMap& map, const std::uint8_t* planes, std::size_t channels,
                                                std::size_t pixels, T* out) {
  switch (channels) {
    case 1:
      return map_pixels<1>(map, planes, pixels, out);
    case 2:
      return map_pixels<2>(map, planes, pixels, out);
    case 3:
      return map_pixels<3>(map, planes, pixels, out);
    default:
      return map_pixels<max_image_channels>(map, planes, pixels, out);
  }
}

CARILLON_SIMD void map_image(const ImageMap& map, const std::uint8_t* planes, std::size_t channels, std::size_t pixels,
                             ElementPointer out) {
  with_float_type(
      out.type(), [&]<typename T>(std::type_identity<T>)
                      __attribute__((always_inline)) { map_image_of(map, planes, channels, pixels, out.as<T>()); });
}

class CifarDistortCpu final : public Op {
 public:
  CifarDistortCpu(const CifarDistortParams& params, const OpContext& context, const Tensor& output)
      : distort_(params.distort),
        seed_(params.seed),
        step_(*context.step),
        output_(output),
        channels_(static_cast<std::size_t>(params.source[0])),
        source_{static_cast<std::size_t>(params.source[1]), static_cast<std::size_t>(params.source[2])},
        crop_{static_cast<std::size_t>(params.crop_height), static_cast<std::size_t>(params.crop_width)},
        places_{static_cast<std::uint32_t>(source_.height - crop_.height + 1),
                static_cast<std::uint32_t>(source_.width - crop_.width + 1)},
        scratch_(*context.device, channels_ * crop_.pixels()) {}

  void forward(Stream& /*stream*/) override {
    const std::size_t row = channels_ * crop_.pixels();
    const std::size_t batch = step_.batch.images.size();
    const ElementPointer out(output_);
    parallel_items(batch, row, scratch_.grain(batch * row, elementwise_grain),
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t b = first; b < last; ++b) cifar_distort_image(b, out + b * row);
                   });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  void cifar_distort_image(std::size_t b, ElementPointer out) const {
    const CifarDistortDraw draw =
        distort_ ? draw_cifar_distortion(seed_, step_.batch.first_position + b, places_) : centre_crop(places_);
    std::uint8_t* planes = scratch_.mine<std::uint8_t>();
    gather_crop(step_.batch.images[b], source_, crop_, channels_, draw, planes);
    std::array<ChannelSums, max_image_channels> sums;
    for (std::size_t c = 0; c < channels_; ++c) sums[c] = sums_of(planes + c * crop_.pixels(), crop_.pixels());
    const ImageMap map =
        image_map(sums.data(), static_cast<int>(channels_), static_cast<std::int64_t>(crop_.pixels()), draw);
    map_image(map, planes, channels_, crop_.pixels(), out);
  }

  bool distort_;
  std::uint64_t seed_;
  const StepInputs& step_;
  Tensor output_;
  std::size_t channels_;
  Plane source_, crop_;
  CropPlaces places_;
  ThreadScratch scratch_;
};

class CifarDistortDefinition final : public OpDefinition {
 public:
  explicit CifarDistortDefinition(CifarDistortParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "cifar_distort"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<CifarDistortCpu>(params_, context, tensors.outputs.at(0)); },
        [&] { return make_cifar_distort_cuda(params_, context, tensors); });
  }

 private:
  CifarDistortParams params_;
};

const OpTraits cifar_distort_traits{.pads_channels = true};

}  // namespace

const OpType cifar_distort_op{
    .name = "cifar_distort",
    .input_count = 0,
    .reads_records = true,
    .build = [](Graph& graph, const std::string& name, std::span<const Value>, const Attributes& attributes) {
      auto params = params_of<CifarDistortParams>(attributes);
      const GraphContext& context = graph.context();
      params.source = {context.image.channels, context.image.height, context.image.width};
      params.distort = context.distort && context.training;
      params.seed = context.seed;
      return outputs_of(cifar_distort(graph, name, params));
    }};

Value cifar_distort(Graph& graph, const std::string& name, const CifarDistortParams& params) {
  const Shape& source = params.source;
  check(source.rank() == 3 && source[0] >= 1 && source[0] <= max_image_channels,
        "cifar_distort requires a source of [channels, height, width] with 1 to 4 channels");
  check(params.crop_height >= 1 && params.crop_height <= source[1] && params.crop_width >= 1 &&
            params.crop_width <= source[2],
        "cifar_distort requires a crop that fits into its source");
  return graph.add_op({.name = name,
                       .definition = std::make_shared<CifarDistortDefinition>(params),
                       .inputs = {},
                       .traits = cifar_distort_traits,
                       .type = &cifar_distort_op,
                       .attributes = attributes_of(params)},
                      {graph.batch_size(), params.crop_height, params.crop_width, source[0]});
}

}  // namespace carillon
