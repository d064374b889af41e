// The CUDA form of the optimiser: one kernel for all parameters, behind two that find norms where the rule needs them.
#include <numeric>
#include <optional>
#include <variant>
#include <vector>

#include "carillon/core/error.h"
#include "kernels/shared/launch.cuh"
#include "src/optim/norm_kernels.h"
#include "src/optim/optimizers.h"
#include "src/optim/update_factors.h"
#include "src/optim/update_kernels.h"

namespace carillon {
namespace {

template <typename T>
Buffer uploaded(const std::vector<T>& values, Device& device) {
  Buffer buffer = device.allocate(values.size() * sizeof(T));
  device.upload(values.data(), buffer.data(), buffer.bytes());
  return buffer;
}

/// What finds the ratios of a NormedRule before the update.
template <NormedRule Rule>
class NormPass {
 public:
  NormPass(const ParameterLayout& layout, const UpdateKernel<Rule>& update, Device& device)
      : NormPass(norm_chunks(layout), update, device) {}

  const float* ratios() const { return static_cast<const float*>(ratios_.data()); }
  void enqueue(const StepEnd& end, Stream& stream) {
    norms_.end = end;
    launch(norms_, stream);
    launch(ForEachElement{ratio_, variable_count_}, stream);
  }

 private:
  NormPass(const NormChunks& all, const UpdateKernel<Rule>& update, Device& device)
      : chunks_(uploaded(all.chunks, device)),
        ranges_(uploaded(all.of_variable, device)),
        sums_(device.allocate(all.chunks.size() * sizeof(Squares))),
        ratios_(device.allocate(all.of_variable.size() * sizeof(float))),
        variable_count_(static_cast<std::int64_t>(all.of_variable.size())),
        norms_{.chunks = static_cast<const NormChunk*>(chunks_.data()),
               .chunk_count = static_cast<int>(all.chunks.size()),
               .gradients = update.gradients,
               .values = update.values,
               .of_variable = update.factors.of_variable,
               .table = update.table,
               .sums = static_cast<Squares*>(sums_.data())},
        ratio_{.ranges = static_cast<const ChunkRange*>(ranges_.data()),
               .sums = norms_.sums,
               .of_variable = norms_.of_variable,
               .table = norms_.table,
               .ratios = static_cast<float*>(ratios_.data())} {
    for (int s = 0; s < NormKernel<Rule>::slot_count; ++s) norms_.slots[s] = update.slots[s];
  }

  Buffer chunks_, ranges_, sums_, ratios_;
  std::int64_t variable_count_;
  NormKernel<Rule> norms_;
  RatioOfVariable<Rule> ratio_;
};

template <typename Rule>
struct NormPassOf {
  using Type = std::monostate;
};
template <NormedRule Rule>
struct NormPassOf<Rule> {
  using Type = std::optional<NormPass<Rule>>;
};

template <UpdateRule Rule>
class OptimizerCuda final : public Optimizer {
 public:
  OptimizerCuda(const OptimizerSettings& settings, const ParameterStore& parameters, Device& device,
                const StepInputs& inputs)
      : device_(device),
        variables_(uploaded(variables_of_lines(parameters.layout()), device)),
        factors_(uploaded(update_factors(settings, parameters.specs()), device)),
        block_sums_(device.allocate(L2SumKernel::max_blocks * sizeof(double))),
        update_{.gradients = parameters.gradients_and_sums().data(),
                .values = parameters.values().data(),
                .averages = parameters.slot(parameters.slot_named(moving_average_slot)).data(),
                .factors = {static_cast<const std::uint32_t*>(variables_.data()),
                            static_cast<const UpdateFactors*>(factors_.data())},
                .table = inputs.table},
        l2_sum_{
            .values = update_.values, .factors = update_.factors, .sums = static_cast<double*>(block_sums_.data())} {
    float** next = update_.slots;
    for (const std::string_view name : Rule::slots) *next++ = parameters.slot(parameters.slot_named(name)).data();
    if (settings.lookahead.every > 0) update_.slow = parameters.slot(parameters.slot_named(lookahead_slot)).data();
    update_.share.count = l2_sum_.share.count = parameters.layout().total();
    if constexpr (NormedRule<Rule>) {
      norms_.emplace(parameters.layout(), update_, device);
      update_.ratios = norms_->ratios();
    }
  }

  void apply(const StepEnd& end, Stream& stream) override {
    if constexpr (NormedRule<Rule>) norms_->enqueue(end, stream);
    update_.end = end;
    launch(update_, stream);
  }

  double l2_loss(Stream& stream) override {
    launch(l2_sum_, stream);
    stream.synchronize();
    std::vector<double> sums(static_cast<std::size_t>(l2_sum_.blocks()));
    device_.download(block_sums_.data(), sums.data(), sums.size() * sizeof(double));
    return 0.5 * std::accumulate(sums.begin(), sums.end(), 0.0);
  }

 private:
  Device& device_;
  Buffer variables_, factors_, block_sums_;
  UpdateKernel<Rule> update_;
  L2SumKernel l2_sum_;
  typename NormPassOf<Rule>::Type norms_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer_cuda(const OptimizerSettings& settings, const ParameterStore& parameters,
                                               Device& device, const StepInputs& inputs) {
  return with_rule(settings.rule, [&]<typename Rule>(std::type_identity<Rule>) -> std::unique_ptr<Optimizer> {
    if constexpr (MatrixRule<Rule>) {
      fail(ExitCode::usage, "--optimizer {} has no form for GPUs yet: --device cpu trains with it", Rule::name);
    } else {
      return std::make_unique<OptimizerCuda<Rule>>(settings, parameters, device, inputs);
    }
  });
}

}  // namespace carillon
