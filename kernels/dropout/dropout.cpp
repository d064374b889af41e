// The definition of dropout, and the op on a CPU. The op draws the random words for a group of elements into an array
// in the first-level cache, and then processes this group.
#include "kernels/dropout/dropout.h"

#include <algorithm>
#include <array>

#include "carillon/core/parallel.h"
#include "carillon/core/philox.h"
#include "kernels/dropout/dropout_kernels.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/float_type.h"

namespace carillon {
namespace {

constexpr std::int64_t elements_at_once = 1024;
static_assert(elements_at_once % dropout_block == 0);
using Words = std::array<std::uint32_t, elements_at_once>;

/// Sets words[4 i + j] to word j of block first_block + i.
CARILLON_SIMD void draw_words(const DropoutFilter& filter, std::uint64_t position, std::uint32_t first_block,
                              std::uint32_t blocks, std::uint32_t* __restrict words) {
  const DropoutFilter own = filter;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const Philox4x32 drawn = own.words(position, first_block + i);
    for (int j = 0; j < dropout_block; ++j) words[dropout_block * i + j] = drawn.word[j];
  }
}

/// `from` may be `to`.
CARILLON_SIMD void apply_words(const DropoutFilter& filter, const std::uint32_t* words, ElementPointer from,
                               std::int64_t count, ElementPointer to) {
  const DropoutFilter own = filter;
  with_float_type(
      to.type(), [&]<typename T>(std::type_identity<T>) __attribute__((always_inline)) {
        const T* const x = from.as<const T>();
        T* const y = to.as<T>();
        for (std::int64_t i = 0; i < count; ++i) y[i] = stored_as<T>(own.apply(to_float(x[i]), words[i]));
      });
}

class DropoutCpu final : public Op {
 public:
  DropoutCpu(const DropoutDraws& draws, const OpContext& context, const OpTensors& tensors)
      : filter_(draws), step_(*context.step), x_(tensors.inputs.at(0)), y_(tensors.outputs.at(0)) {
    if (!tensors.input_gradients.empty()) dx_ = tensors.input_gradients.at(0);
  }

  void forward(Stream& /*stream*/) override { apply(x_, y_); }
  void backward(Stream& /*stream*/) override {
    if (dx_) apply(dx_, dx_);
  }

 private:
  void apply(const Tensor& from, const Tensor& to) const {
    const std::int64_t size = x_.shape.elements_per_sample();
    parallel_items(static_cast<std::size_t>(x_.shape[0]), static_cast<std::size_t>(size), elementwise_grain / 4,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t b = first; b < last; ++b) {
                       const auto sample = static_cast<std::int64_t>(b);
                       apply_to_sample(step_.batch.first_position + b, sample_of(from, sample), size,
                                       sample_of(to, sample));
                     }
                   });
  }

  void apply_to_sample(std::uint64_t position, ElementPointer from, std::int64_t size, ElementPointer to) const {
    Words words;
    for (std::int64_t at = 0; at < size; at += elements_at_once) {
      const std::int64_t count = std::min(elements_at_once, size - at);
      draw_words(filter_, position, static_cast<std::uint32_t>(at / dropout_block),
                 static_cast<std::uint32_t>(ceil_divide(count, dropout_block)), words.data());
      const auto done = static_cast<std::size_t>(at);
      apply_words(filter_, words.data(), from + done, count, to + done);
    }
  }

  DropoutFilter filter_;
  const StepInputs& step_;
  Tensor x_, y_, dx_;
};

class DropoutDefinition final : public OpDefinition {
 public:
  explicit DropoutDefinition(const DropoutDraws& draws) : draws_(draws) {}
  std::string_view type() const override { return draws_.whole_samples ? "drop_path" : "dropout"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::optional<int> gradient_shares_output(int /*input*/) const override { return 0; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<DropoutCpu>(draws_, context, tensors); },
        [&] { return make_dropout_cuda(draws_, context, tensors); });
  }

 private:
  DropoutDraws draws_;
};

Value add_dropout(Graph& graph, const std::string& name, Value x, const DropoutParams& params, bool whole_samples) {
  check(params.rate >= 0.0f && params.rate < 1.0f, "dropout requires a rate from 0 to below 1");
  if (!params.training || params.rate == 0.0f) return x;
  const DropoutDraws draws{philox_key_of(params.seed, RandomPurpose::dropout, name), params.rate, whole_samples};
  return graph.add_op({.name = name,
                       .definition = std::make_shared<DropoutDefinition>(draws),
                       .inputs = {x},
                       .type = whole_samples ? &drop_path_op : &dropout_op,
                       .attributes = attributes_of(params)},
                      graph.shape(x));
}

DropoutParams read_params(const Graph& graph, const Attributes& attributes) {
  auto params = params_of<DropoutParams>(attributes);
  params.training = graph.context().training;
  params.seed = graph.context().seed;
  return params;
}

}  // namespace

const OpType dropout_op{
    .name = "dropout",
    .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
      return outputs_of(dropout(graph, name, inputs[0], read_params(graph, attributes)));
    }};
const OpType drop_path_op{
    .name = "drop_path",
    .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
      return outputs_of(drop_path(graph, name, inputs[0], read_params(graph, attributes)));
    }};

Value dropout(Graph& graph, const std::string& name, Value x, const DropoutParams& params) {
  return add_dropout(graph, name, x, params, false);
}

Value drop_path(Graph& graph, const std::string& name, Value x, const DropoutParams& params) {
  return add_dropout(graph, name, x, params, true);
}

}  // namespace carillon
