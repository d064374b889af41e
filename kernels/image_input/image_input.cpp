// The definition of image_input, and the op on a CPU. For each image, the op copies the crop to contiguous memory,
// computes the values, sets the cutout square to 0, and warps the image.
#include "kernels/image_input/image_input.h"

#include <algorithm>
#include <array>
#include <span>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/image_input/image_input_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/thread_scratch.h"

namespace carillon {
namespace {

using ImageSums = std::array<ChannelSums, max_image_channels>;

/// Calls `function` with the number of channels as a constant. `channels`: 1 to max_image_channels.
template <typename Function>
[[gnu::always_inline]] inline auto with_channels(std::int32_t channels, const Function& function) {
  static_assert(max_image_channels == 4);
  switch (channels) {
    case 1:
      return function(std::integral_constant<int, 1>());
    case 2:
      return function(std::integral_constant<int, 2>());
    case 3:
      return function(std::integral_constant<int, 3>());
    default:
      return function(std::integral_constant<int, 4>());
  }
}

/// `image`: [pixels, channels].
CARILLON_SIMD ImageSums sums_of(const std::uint8_t* image, std::int32_t pixels, std::int32_t channels) {
  return with_channels(
      channels, [&]<int count>(std::integral_constant<int, count>) __attribute__((always_inline)) {
        constexpr std::int32_t piece = 32768;  // the sum of 32768 squared bytes fits into 32 bits
        ImageSums sums;
        for (std::int32_t begin = 0; begin < pixels; begin += piece) {
          std::uint32_t values[count] = {}, squares[count] = {};
          for (std::int32_t i = begin; i < std::min(begin + piece, pixels); ++i) {
            for (int c = 0; c < count; ++c) {
              const std::uint32_t value = image[i * count + c];
              values[c] += value;
              squares[c] += value * value;
            }
          }
          for (int c = 0; c < count; ++c) {
            sums[static_cast<std::size_t>(c)].values += values[c];
            sums[static_cast<std::size_t>(c)].squares += squares[c];
          }
        }
        return sums;
      });
}

/// out[pixel, c] = given.value(c, image[pixel, c]).
CARILLON_SIMD void map_pixels(const PixelMap& given, const std::uint8_t* image, std::int32_t pixels,
                              std::int32_t channels, ElementPointer out) {
  const PixelMap map = given;
  with_float_type(
      out.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        with_channels(
            channels, [&]<int count>(std::integral_constant<int, count>) __attribute__((always_inline)) {
              const std::uint8_t* __restrict from = image;
              T* __restrict to = out.as<T>();
              for (std::int32_t i = 0; i < pixels; ++i) {
                for (int c = 0; c < count; ++c) to[i * count + c] = stored_as<T>(map.value(c, from[i * count + c]));
              }
            });
      });
}

/// Sets out[pixel, c] to the interpolated value of `image` at the warped position of the pixel.
CARILLON_SIMD void warp_pixels(const ImageInputMap& given, const Warp& given_warp, ElementPointer image,
                               ElementPointer out) {
  const ImageInputMap map = given;
  const Warp warp = given_warp;
  with_float_type(
      out.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const from = image.as<const T>();
        T* to = out.as<T>();
        for (std::int32_t y = 0; y < map.crop_height; ++y) {
          for (std::int32_t x = 0; x < map.crop_width; ++x, to += map.channels) {
            map.interpolate(
                warp.at(y, x), 0, map.channels,
                [&](std::int32_t row, std::int32_t column, std::int32_t c) {
                  return to_float(from[(row * map.crop_width + column) * map.channels + c]);
                },
                [&](std::int32_t c, float value) { to[c] = stored_as<T>(value); });
          }
        }
      });
}

class ImageInputCpu final : public Op {
 public:
  ImageInputCpu(const ImageInputParams& params, const OpContext& context, const Tensor& output)
      : map_(params),
        step_(*context.step),
        output_(output),
        values_at_(aligned_bytes(static_cast<std::size_t>(map_.crop_width) * sizeof(std::int32_t)) +
                   aligned_bytes(values())),
        scratch_(*context.device, values_at_ + (map_.warps ? values() * sizeof(float) : 0)) {}

  void forward(Stream& /*stream*/) override {
    const auto row = static_cast<std::size_t>(output_.shape.elements_per_sample());
    check(!map_.mirrors_by_record() || !step_.batch.records.empty(),
          "alternating mirroring requires the record numbers of the batch");
    const std::size_t batch = step_.batch.images.size();
    parallel_items(batch, row, scratch_.grain(batch * row, elementwise_grain),
                   [&](std::size_t first, std::size_t last) {
                     const Scratch scratch = scratch_of_thread();
                     for (std::size_t b = first; b < last; ++b) {
                       write_image(b, scratch, sample_of(output_, static_cast<std::int64_t>(b)));
                     }
                   });
  }

  void backward(Stream& /*stream*/) override {}

 private:
  /// The memory of one thread, for one image.
  struct Scratch {
    std::span<std::int32_t> columns;  ///< [crop_width]
    std::uint8_t* crop = nullptr;     ///< [crop_height, crop_width, channels]
    std::byte* unwarped = nullptr;    ///< values before the warp, float32 or bf16, with the extents of `crop`
  };

  std::size_t values() const { return static_cast<std::size_t>(map_.pixels() * map_.channels); }
  Scratch scratch_of_thread() const {
    auto* const memory = scratch_.mine<std::byte>();
    const auto width = static_cast<std::size_t>(map_.crop_width);
    return {.columns = {reinterpret_cast<std::int32_t*>(memory), width},
            .crop = reinterpret_cast<std::uint8_t*>(memory + aligned_bytes(width * sizeof(std::int32_t))),
            .unwarped = memory + values_at_};
  }

  void write_image(std::size_t b, const Scratch& scratch, ElementPointer out) const {
    const std::uint64_t position = step_.batch.first_position + b;
    const ImageDraw drawn = map_.draw(position, map_.mirrors_by_record() ? step_.batch.records[b] : 0);
    const std::uint8_t* const crop = crop_of(step_.batch.images[b], drawn, scratch);
    if (!map_.warps) return write_values(crop, drawn, out);
    const ElementPointer unwarped(Tensor{.data = scratch.unwarped, .type = out.type()});
    write_values(crop, drawn, unwarped);
    warp_pixels(map_, map_.draw_warp(position), unwarped, out);
  }

  /// Returns the crop, [crop_height, crop_width, channels]: a copy in `scratch`, or the image itself if the crop is the
  /// whole image.
  const std::uint8_t* crop_of(const std::uint8_t* image, const ImageDraw& drawn, const Scratch& scratch) const {
    const std::int32_t width = map_.crop_width, channels = map_.channels;
    const bool is_whole = map_.crop_height == map_.height && width == map_.width;
    if (is_whole && drawn.top == 0 && drawn.left == 0 && !drawn.mirrored) return image;
    for (std::int32_t x = 0; x < width; ++x) scratch.columns[static_cast<std::size_t>(x)] = map_.column_of(drawn, x);
    std::uint8_t* out = scratch.crop;
    for (std::int32_t y = 0; y < map_.crop_height; ++y, out += width * channels) {
      const std::int32_t row = map_.row_of(drawn, y);
      if (row < 0) {
        std::fill_n(out, width * channels, std::uint8_t{0});
      } else {
        with_channels(channels, [&]<int count>(std::integral_constant<int, count>) {
          copy_row<count>(image + row * map_.width * channels, scratch.columns, out);
        });
      }
    }
    return scratch.crop;
  }

  template <int channels>
  static void copy_row(const std::uint8_t* row, std::span<const std::int32_t> columns, std::uint8_t* out) {
    for (const std::int32_t column : columns) {
      for (int c = 0; c < channels; ++c) *out++ = column < 0 ? std::uint8_t{0} : row[column * channels + c];
    }
  }

  void write_values(const std::uint8_t* crop, const ImageDraw& drawn, ElementPointer out) const {
    PixelMap map = map_.fixed;
    if (map_.standardizes) {
      map = standardizing_map(sums_of(crop, map_.pixels(), map_.channels).data(), map_.channels, map_.pixels(), drawn);
    }
    if (map_.normalizes || map_.standardizes) {
      map_pixels(map, crop, map_.pixels(), map_.channels, out);
    } else {
      map_pixels(map, crop, map_.pixels() * map_.channels, 1, out);
    }
    if (map_.cutout > 0) cut_out(drawn, out);
  }

  void cut_out(const ImageDraw& drawn, ElementPointer out) const {
    with_float_type(out.type(), [&]<typename T>(std::type_identity<T>) {
      for (std::int32_t y = drawn.cut_top; y < drawn.cut_top + map_.cutout; ++y) {
        T* const row = out.as<T>() + (y * map_.crop_width + drawn.cut_left) * map_.channels;
        std::fill_n(row, map_.cutout * map_.channels, T{});
      }
    });
  }

  ImageInputMap map_;
  const StepInputs& step_;
  Tensor output_;
  std::size_t values_at_;  // offset of Scratch::unwarped in the memory of a thread
  ThreadScratch scratch_;
};

class ImageInputDefinition final : public OpDefinition {
 public:
  explicit ImageInputDefinition(ImageInputParams params) : params_(std::move(params)) {}
  const ImageInputParams& params() const { return params_; }
  std::string_view type() const override { return "image_input"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    check(!ImageInputMap(params_).mirrors_by_record() || params_.record_count > 0,
          "image_input requires record_count for alternating mirroring");
    return on_device(
        context, [&] { return std::make_unique<ImageInputCpu>(params_, context, tensors.outputs.at(0)); },
        [&] { return make_image_input_cuda(params_, context, tensors); });
  }

 private:
  ImageInputParams params_;
};

void check_params(const ImageInputParams& params) {
  const Shape& image = params.sample;
  const bool only_scales = params.values == PixelValues::scaled && params.crop_height == 0 && params.crop_width == 0 &&
                           params.padding == 0 && params.mirroring == ImageMirroring::none && params.cutout == 0;
  check(params.warp.rotation >= 0.0 && params.warp.zoom >= 0.0 && params.warp.zoom < 1.0 && params.warp.shift >= 0.0,
        "image_input requires rotation >= 0, zoom from 0 to below 1 and shift >= 0");
  if (only_scales && !params.warp.warps()) return;
  check(image.rank() == 3, "image_input requires images of [height, width, channels]");
  check(only_scales || (image[2] >= 1 && image[2] <= static_cast<std::int64_t>(max_image_channels)),
        "image_input requires images with 1 to 4 channels");
  const std::int64_t extent = std::min(image[0], image[1]);
  check(params.crop_height >= 0 && params.crop_height <= image[0] && params.crop_width >= 0 &&
            params.crop_width <= image[1],
        "image_input requires a crop that fits into the image");
  check(params.padding >= 0 && params.padding < extent, "image_input requires a padding below the image's extents");
  const ImageInputMap map(params);
  check(params.cutout >= 0 && params.cutout <= std::min(map.crop_height, map.crop_width),
        "image_input requires a cutout that fits into the crop");
  check(std::ranges::all_of(params.deviation, [](float deviation) { return deviation > 0.0f; }),
        "image_input requires deviations above 0");
  check(params.brightness >= 0.0f && params.contrast[0] <= params.contrast[1],
        "image_input requires brightness >= 0, and a contrast range in ascending order");
}

}  // namespace

const OpType image_input_op{
    .name = "image_input",
    .input_count = 0,
    .reads_records = true,
    .build = [](Graph& graph, const std::string& name, std::span<const Value>, const Attributes& attributes) {
      auto params = params_of<ImageInputParams>(attributes);
      const GraphContext& context = graph.context();
      params.sample = {context.image.height, context.image.width, context.image.channels};
      params.distort = context.distort && context.training;
      params.record_count = context.record_count;
      params.seed = context.seed;
      return outputs_of(image_input(graph, name, params));
    }};

Value image_input(Graph& graph, const std::string& name, const ImageInputParams& params) {
  check_params(params);
  std::vector<std::int64_t> extents = params.sample.extents();
  if (params.crop_height > 0) extents[0] = params.crop_height;
  if (params.crop_width > 0) extents[1] = params.crop_width;
  extents.insert(extents.begin(), graph.batch_size());
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ImageInputDefinition>(params),
                       .inputs = {},
                       .traits = {.pads_channels = params.sample.rank() == 3},
                       .type = &image_input_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

void warp_images(Graph& graph, Value images, const WarpParams& params) {
  std::vector<Graph::Node> nodes = graph.nodes();
  Graph::Node& node =
      nodes.at(static_cast<std::size_t>(graph.values()[static_cast<std::size_t>(images.index)].producer));
  const auto* definition = dynamic_cast<const ImageInputDefinition*>(node.definition.get());
  check(definition != nullptr, "warping requires a network whose input op is an image_input");
  ImageInputParams warping = definition->params();
  warping.warp = params;
  check_params(warping);
  node.definition = std::make_shared<ImageInputDefinition>(warping);
  graph.replace_nodes(std::move(nodes));
}

}  // namespace carillon
