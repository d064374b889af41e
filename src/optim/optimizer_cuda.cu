// The optimiser of a GPU: one kernel updates all parameters. For some rules, other kernels run before it and compute
// norms or orthogonalise matrices.
#include <optional>
#include <variant>
#include <vector>

#include "kernels/shared/launch.cuh"
#include "src/optim/newton_schulz_cuda.h"
#include "src/optim/norm_kernels.h"
#include "src/optim/optimizer.h"
#include "src/optim/rules.h"
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

/// Computes the factor by which the gradient is clipped.
class ClipPass {
 public:
  template <UpdateRule Rule>
  ClipPass(double limit, const NormChunks& all, const UpdateKernel<Rule>& update, Device& device)
      : chunks_(uploaded(all.chunks, device)),
        square_sums_(device.allocate(all.chunks.size() * sizeof(double))),
        clipped_(uploaded(std::vector<ClippedNorm>(1), device)),
        squares_{.chunks = static_cast<const NormChunk*>(chunks_.data()),
                 .chunk_count = static_cast<int>(all.chunks.size()),
                 .gradients = update.gradients,
                 .values = update.values,
                 .of_variable = update.factors.of_variable,
                 .table = update.table,
                 .square_sums = static_cast<double*>(square_sums_.data())},
        clip_{.square_sums = squares_.square_sums,
              .chunk_count = squares_.chunk_count,
              .limit = limit,
              .clipped = static_cast<ClippedNorm*>(clipped_.data())} {}

  const ClippedNorm* clipped() const { return clip_.clipped; }
  void enqueue(const StepEnd& end, Stream& stream) {
    squares_.end = end;
    launch(squares_, stream);
    launch(clip_, stream);
  }

 private:
  Buffer chunks_, square_sums_, clipped_;
  GradientSquares squares_;
  ClipGradient clip_;
};

/// Computes the norms of variables and directions. An `OfVariable` kernel then computes each variable's ratio.
template <UpdateRule Rule, typename OfVariable>
class NormPass {
 public:
  NormPass(const NormChunks& all, const UpdateKernel<Rule>& update, Device& device, float* directions = nullptr)
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
               .clipped = update.clipped,
               .table = update.table,
               .sums = static_cast<Squares*>(sums_.data()),
               .directions = directions},
        of_variable_{.ranges = static_cast<const ChunkRange*>(ranges_.data()),
                     .sums = norms_.sums,
                     .of_variable = norms_.of_variable,
                     .table = norms_.table,
                     .ratios = static_cast<float*>(ratios_.data())} {
    for (int s = 0; s < NormKernel<Rule>::slot_count; ++s) norms_.slots[s] = update.slots[s];
  }

  const float* ratios() const { return static_cast<const float*>(ratios_.data()); }
  std::span<const NormChunk> chunks() const { return {norms_.chunks, static_cast<std::size_t>(norms_.chunk_count)}; }
  OfVariable& of_variable() { return of_variable_; }
  void enqueue(const StepEnd& end, Stream& stream) {
    norms_.end = end;
    launch(norms_, stream);
    launch(ForEachElement{of_variable_, variable_count_}, stream);
  }

 private:
  Buffer chunks_, ranges_, sums_, ratios_;
  std::int64_t variable_count_;
  NormKernel<Rule> norms_;
  OfVariable of_variable_;
};

/// Orthogonalises the directions before the update. The directions have their own memory, because only the communicator
/// decides when gradients may be written.
template <MatrixRule Rule>
class MatrixPass {
 public:
  MatrixPass(const OptimizerSettings& settings, const ParameterStore& parameters, const UpdateKernel<Rule>& update,
             Device& device, Arithmetic arithmetic)
      : MatrixPass(settings, parameters, update, device, arithmetic, orthogonal(settings, parameters)) {}

  const float* ratios() const { return norms_.ratios(); }
  const float* directions() const { return newton_schulz_.result(); }
  void enqueue(const StepEnd& end, Stream& stream) {
    norms_.enqueue(end, stream);
    newton_schulz_.enqueue(static_cast<const float*>(inverse_norms_.data()), stream);
  }

 private:
  MatrixPass(const OptimizerSettings& settings, const ParameterStore& parameters, const UpdateKernel<Rule>& update,
             Device& device, Arithmetic arithmetic, const std::vector<bool>& wanted)
      : columns_(uploaded(columns_of(parameters), device)),
        inverse_norms_(device.allocate(wanted.size() * sizeof(float))),
        newton_schulz_(as_cuda(device), arithmetic, matrices_of(parameters, wanted), parameters.layout().total(),
                       settings.muon_steps),
        norms_(norm_chunks(parameters.layout(), wanted), update, device, newton_schulz_.input()) {
    norms_.of_variable().inverse_norms = static_cast<float*>(inverse_norms_.data());
    if (settings.muon_normalizes) {
      norms_.of_variable().columns = static_cast<const std::int64_t*>(columns_.data());
    }
  }

  static std::vector<bool> orthogonal(const OptimizerSettings& settings, const ParameterStore& parameters) {
    std::vector<bool> wanted;
    for (const UpdateFactors& factors : update_factors(settings, parameters.specs())) {
      wanted.push_back(factors.orthogonal);
    }
    return wanted;
  }
  static std::vector<std::int64_t> columns_of(const ParameterStore& parameters) {
    std::vector<std::int64_t> columns;
    for (const ParameterSpec& spec : parameters.specs()) columns.push_back(spec.shape.extents().back());
    return columns;
  }
  static std::vector<FlatMatrix> matrices_of(const ParameterStore& parameters, const std::vector<bool>& wanted) {
    std::vector<FlatMatrix> matrices;
    for (const int variable : parameters.layout().order()) {
      const auto index = static_cast<std::size_t>(variable);
      if (!wanted[index]) continue;
      matrices.push_back({.first = parameters.layout().offset(variable),
                          .shape = matrix_shape(parameters.specs()[index].shape),
                          .variable = static_cast<std::uint32_t>(variable)});
    }
    return matrices;
  }

  Buffer columns_, inverse_norms_;
  NewtonSchulzCuda newton_schulz_;
  NormPass<Rule, MatrixOfVariable> norms_;
};

/// The pass that a rule requires before its update.
template <typename Rule>
struct PassBefore {
  using Type = std::monostate;
};
template <NormedRule Rule>
struct PassBefore<Rule> {
  using Type = std::optional<NormPass<Rule, RatioOfVariable<Rule>>>;
};
template <MatrixRule Rule>
struct PassBefore<Rule> {
  using Type = std::optional<MatrixPass<Rule>>;
};

template <UpdateRule Rule>
class OptimizerCuda final : public Optimizer {
  static constexpr bool has_pass_before = NormedRule<Rule> || MatrixRule<Rule>;

 public:
  OptimizerCuda(const OptimizerSettings& settings, const ParameterStore& parameters, Device& device,
                const StepInputs& inputs, Arithmetic arithmetic)
      : variables_(uploaded(variables_of_lines(parameters.layout()), device)),
        factors_(uploaded(update_factors(settings, parameters.specs()), device)),
        compute_copies_(uploaded(compute_copy_indices(parameters), device)),
        block_sums_(device.allocate(UpdateKernel<Rule>::max_blocks * sizeof(double))),
        update_{.gradients = parameters.gradients_and_sums().data(),
                .values = parameters.values().data(),
                .factors = {static_cast<const std::uint32_t*>(variables_.data()),
                            static_cast<const UpdateFactors*>(factors_.data())},
                .block_sums = static_cast<double*>(block_sums_.data()),
                .table = inputs.table} {
    if (!parameters.compute_copies().empty())
      update_.compute_copies = static_cast<const ComputeCopyIndex*>(compute_copies_.data());
    if (settings.keeps_averages()) {
      update_.averages = parameters.slot(parameters.slot_named(moving_average_slot)).data();
    }
    float** next = update_.slots;
    for (const std::string_view name : Rule::slots) *next++ = parameters.slot(parameters.slot_named(name)).data();
    if (settings.lookahead.every > 0) update_.slow = parameters.slot(parameters.slot_named(lookahead_slot)).data();
    update_.share.count = parameters.layout().total();
    if (settings.clip_norm > 0.0) {
      clip_.emplace(settings.clip_norm, norm_chunks(parameters.layout()), update_, device);
      update_.clipped = clip_->clipped();
    }
    if constexpr (NormedRule<Rule>) before_.emplace(norm_chunks(parameters.layout()), update_, device);
    if constexpr (MatrixRule<Rule>) before_.emplace(settings, parameters, update_, device, arithmetic);
    if constexpr (has_pass_before) update_.ratios = before_->ratios();
    if constexpr (MatrixRule<Rule>) update_.directions = before_->directions();
  }

  void apply(const StepEnd& end, Stream& stream) override {
    if (clip_) clip_->enqueue(end, stream);
    if constexpr (has_pass_before) before_->enqueue(end, stream);
    update_.end = end;
    launch(update_, stream);
  }

 private:
  Buffer variables_, factors_, compute_copies_, block_sums_;
  UpdateKernel<Rule> update_;
  std::optional<ClipPass> clip_;
  typename PassBefore<Rule>::Type before_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer_cuda(const OptimizerSettings& settings, const ParameterStore& parameters,
                                               Device& device, const StepInputs& inputs, Arithmetic arithmetic) {
  return with_rule(settings.rule, [&]<typename Rule>(std::type_identity<Rule>) -> std::unique_ptr<Optimizer> {
    return std::make_unique<OptimizerCuda<Rule>>(settings, parameters, device, inputs, arithmetic);
  });
}

void enqueue_lookahead_cuda(const LookAheadElement& kernel, std::size_t count, Stream& stream) {
  launch(ForEachElement{kernel, static_cast<std::int64_t>(count)}, stream);
}

void enqueue_scale_cuda(const ScaleElement& kernel, std::size_t count, Stream& stream) {
  launch(ForEachElement{kernel, static_cast<std::int64_t>(count)}, stream);
}

}  // namespace carillon
