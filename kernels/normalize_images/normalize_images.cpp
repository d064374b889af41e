#include "kernels/normalize_images/normalize_images.h"

#include <algorithm>

#include "kernels/normalize_images/normalize_images_math.h"
#include "kernels/shared/backend.h"

namespace carillon {
namespace {

class NormalizeImagesDefinition final : public OpDefinition {
 public:
  explicit NormalizeImagesDefinition(NormalizeImagesParams params) : params_(std::move(params)) {}
  std::string_view type() const override { return "normalize_images"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    check(!NormalizeImagesMap(params_).mirrors_by_record() || params_.record_count > 0,
          "normalize_images requires record_count for alternating mirroring");
    return on_device(
        context, [&] { return make_normalize_images_cpu(params_, context, tensors); },
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
