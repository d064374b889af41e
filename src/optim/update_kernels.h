// UpdateKernel: the optimiser's GPU kernel. It updates all parameters, computes the L2 loss if the step reports it, and
// ends the step. It processes the flat arrays of a ParameterStore as a whole: padding holds zeros and stays zero.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/pack.h"
#include "src/optim/update_rule.h"

namespace carillon {

/// Floats per line of a flat array. Tensors start at multiples of line_floats, so each line belongs to one tensor.
inline constexpr std::size_t line_floats = tensor_alignment_bytes / sizeof(float);

/// Returns the variable of each line: [layout.total() / line_floats].
inline std::vector<std::uint32_t> variables_of_lines(const ParameterLayout& layout) {
  std::vector<std::uint32_t> variables(layout.total() / line_floats);
  for (const int variable : layout.order()) {
    const std::size_t first = layout.offset(variable) / line_floats;
    const std::size_t count = (layout.count(variable) + line_floats - 1) / line_floats;
    std::fill_n(variables.begin() + static_cast<std::ptrdiff_t>(first), count, static_cast<std::uint32_t>(variable));
  }
  return variables;
}

/// Looks up the factors of a variable by the index of an element in a flat array. The tables are small enough for a
/// GPU's caches.
struct FactorTable {
  const std::uint32_t* variables = nullptr;    ///< variables_of_lines
  const UpdateFactors* of_variable = nullptr;  ///< [variable]

  CARILLON_HOST_DEVICE const UpdateFactors& at(std::size_t i) const { return of_variable[variables[i / line_floats]]; }
};

/// Distributes the packs of a flat array (4 consecutive floats each) to all threads of all blocks, in turn.
struct FlatShare {
  static constexpr int threads = 256;
  static constexpr int pack = 4;  ///< floats per pack

  std::size_t count = 0;       ///< floats in the flat array, a multiple of line_floats
  std::size_t max_blocks = 1;  ///< largest number of blocks per launch; in a large array, a thread gets several packs

  /// Returns the number of blocks, at least 1.
  CARILLON_HOST_DEVICE int blocks() const {
    const std::size_t wanted = (count / pack + threads - 1) / threads;
    return static_cast<int>(wanted < 1 ? 1 : wanted > max_blocks ? max_blocks : wanted);
  }
  /// Calls body(i) with the first position i of each of this thread's packs.
  template <typename Body>
  CARILLON_HOST_DEVICE void for_each_pack(int block, int thread, const Body& body) const {
    const std::size_t first = (static_cast<std::size_t>(block) * threads + static_cast<std::size_t>(thread)) * pack;
    const std::size_t stride = static_cast<std::size_t>(blocks()) * threads * pack;
    for (std::size_t i = first; i < count; i += stride) body(i);
  }
};

/// The compute copy of a parameter. The update writes the compute copy together with the parameter.
struct ComputeCopyIndex {
  void* data = nullptr;       ///< null: there is no compute copy
  std::size_t offset = 0;     ///< offset of the parameter in the flat array
  std::uint32_t count = 0;    ///< elements of the parameter
  std::uint32_t columns = 0;  ///< only for a filter-major compute copy: the last extent of the parameter; 0: the copy
                              ///< has the same layout as the parameter
  std::uint32_t rows = 0;     ///< only for a filter-major compute copy: its last extent, which is the number of
                              ///< elements per column of the parameter, with padding
  ChannelPadding padding = {};
  DType type = DType::bf16;

  /// Writes a pack to the compute copy. `values`: the pack at position i of the flat array.
  CARILLON_HOST_DEVICE void write(const Pack<float, FlatShare::pack>& values, std::size_t i) const {
    const auto first = static_cast<std::uint32_t>(i - offset);
    if (columns == 0) return store_floats(values, static_cast<Bf16*>(data) + first);
    for (std::uint32_t k = 0; k < FlatShare::pack; ++k) {
      const std::uint32_t element = first + k;
      if (element >= count) return;  // padding
      const std::size_t place = std::size_t{element % columns} * rows + padding.place(element / columns);
      if (type == DType::bf16) {
        static_cast<Bf16*>(data)[place] = to_bf16(values.at[k]);
      } else {
        static_cast<float*>(data)[place] = values.at[k];
      }
    }
  }
};

/// Returns the compute copy of each variable: [variable], or empty if no parameter has a compute copy.
inline std::vector<ComputeCopyIndex> compute_copy_indices(const ParameterStore& parameters) {
  std::vector<ComputeCopyIndex> places;
  for (std::size_t i = 0; i < parameters.compute_copies().size(); ++i) {
    const ComputeCopy& compute_copy = parameters.compute_copies()[i];
    const bool filter_major = compute_copy.form == ComputeCopyFormat::filter_major;
    places.push_back({.data = compute_copy.tensor.data,
                      .offset = parameters.layout().offset(static_cast<int>(i)),
                      .count = static_cast<std::uint32_t>(parameters.layout().count(static_cast<int>(i))),
                      .columns = filter_major ? static_cast<std::uint32_t>(compute_copy.tensor.shape[0]) : 0,
                      .rows = filter_major ? static_cast<std::uint32_t>(compute_copy.tensor.shape[1]) : 0,
                      .padding = compute_copy.padding,
                      .type = compute_copy.tensor.type});
  }
  return places;
}

/// Updates all parameters. It is the step's last kernel. It sums the L2 loss in double precision and in a fixed order:
/// first the packs of a thread, then the threads of a block, then the blocks.
template <typename Rule>
struct UpdateKernel {
  static constexpr int threads = FlatShare::threads;
  static constexpr int update_phase = 0, fold_phase = 1, block_phase = 2, blocks_phase = 3, last_fold_phase = 4,
                       end_phase = 5;
  static constexpr int phases = end_phase + 1;
  static constexpr int parts = 16;  ///< number of partial sums into which a block folds the sums of its threads
  static constexpr int max_blocks = 2048;
  static constexpr int slot_count = static_cast<int>(Rule::slots.size());
  static constexpr int slot_places = slot_count > 0 ? slot_count : 1;  ///< at least 1, because C++ has no empty arrays
  using Values = Pack<float, FlatShare::pack>;

  struct Shared {
    double sums[threads];  ///< [thread] if the step reports the L2 loss: the thread's sum of l2_factor * w^2 before the
                           ///< update
    double of_part[parts];
    bool reports_l2, last_block;
  };

  FlatShare share{.max_blocks = max_blocks};
  const float* gradients = nullptr;  ///< [share.count]; the products of these values and end.result_scale are the mean
                                     ///< gradients
  float* values = nullptr;           ///< [share.count]
  float* averages = nullptr;         ///< [share.count]; null: no moving averages
  float* slots[slot_places] = {};    ///< [slot_count][share.count]
  float* slow = nullptr;             ///< [share.count]; null: no lookahead
  FactorTable factors;
  const float* ratios = nullptr;         ///< [variable]: ratios (NormedRule) or UpdateFactors::kept (MatrixRule)
  const float* directions = nullptr;     ///< [share.count]: replaces gradients of orthogonal variables (MatrixRule)
  const ClippedNorm* clipped = nullptr;  ///< null: the gradient is not clipped
  const ComputeCopyIndex* compute_copies = nullptr;  ///< [variable]; null: there is no compute copy
  double* block_sums = nullptr;                      ///< [max_blocks]
  StepTable table;
  StepEnd end;

  int blocks() const { return share.blocks(); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == update_phase) {
      const bool reports_l2 = table.header().reports_l2 != 0;
      // This value is in `shared`, because no block may read the header after finish_block.
      if (thread == 0) shared.reports_l2 = reports_l2;
      if (reports_l2) shared.sums[thread] = l2_of_thread(block, thread);
      if (end.allows_update()) update(block, thread);
    } else if constexpr (phase == block_phase) {
      if (thread != 0) return;
      if (shared.reports_l2) block_sums[block] = total(shared);
      shared.last_block = end.finish_block(share.blocks());
    } else if constexpr (phase == end_phase) {
      if (thread == 0 && shared.last_block) {
        end.finish_step(shared.reports_l2 ? 0.5 * total(shared) : 0.0, clipped != nullptr ? clipped->norm : -1.0);
      }
    } else if (shared.reports_l2 && (phase == fold_phase || shared.last_block)) {
      if constexpr (phase == blocks_phase) {
        shared.sums[thread] = 0.0;
        for (int i = thread; i < share.blocks(); i += threads) shared.sums[thread] += block_sums[i];
      } else if (thread < parts) {
        shared.of_part[thread] = 0.0;
        for (int i = thread; i < threads; i += parts) shared.of_part[thread] += shared.sums[i];
      }
    }
  }

  CARILLON_HOST_DEVICE static double total(const Shared& shared) {
    double sum = 0.0;
    for (const double of_part : shared.of_part) sum += of_part;
    return sum;
  }

  /// This thread's part of the sum of l2_factor * w^2 over all parameters.
  CARILLON_HOST_DEVICE double l2_of_thread(int block, int thread) const {
    double sum = 0.0;
    share.for_each_pack(block, thread, [&](std::size_t i) {
      const double factor = factors.at(i).l2;
      if (factor == 0.0) return;
      double squares = 0.0;
      for (const float v : load<FlatShare::pack>(values + i).at) squares += static_cast<double>(v) * v;
      sum += factor * squares;
    });
    return sum;
  }

  CARILLON_HOST_DEVICE void update(int block, int thread) const {
    const StepScalars of_step = table.header().scalars;
    const bool ahead = slow != nullptr && looks_ahead(of_step);
    const float clip = clip_factor(clipped);
    share.for_each_pack(block, thread, [&](std::size_t i) {
      UpdateFactors of_variable = factors.at(i);
      if constexpr (NormedRule<Rule>) of_variable.rate *= ratios[factors.variables[i / line_floats]];
      if constexpr (MatrixRule<Rule>) of_variable.kept = ratios[factors.variables[i / line_floats]];
      of_variable.l2 *= clip;
      const bool by_direction = MatrixRule<Rule> && of_variable.orthogonal;
      Values gradient = load<FlatShare::pack>((by_direction ? directions : gradients) + i);
      for (int k = 0; k < FlatShare::pack && !by_direction; ++k) {
        gradient.at[k] = rounded_product(end.mean(gradient.at[k]), clip);
      }
      Elements elements = load_elements(i, ahead);
      update_elements(elements, gradient, of_variable, of_step, ahead);
      store_elements(elements, i, ahead);
    });
  }

  /// A pack of all arrays that the update changes.
  struct Elements {
    Values value, average = {}, slow = {};  ///< `average` and `slow` are stored only if their arrays exist
    Values kept[slot_places];
  };

  CARILLON_HOST_DEVICE Elements load_elements(std::size_t i, bool ahead) const {
    constexpr int n = FlatShare::pack;
    Elements elements{.value = load<n>(values + i)};
    if (averages != nullptr) elements.average = load<n>(averages + i);
    if (ahead) elements.slow = load<n>(slow + i);
    for (int s = 0; s < slot_count; ++s) elements.kept[s] = load<n>(slots[s] + i);
    return elements;
  }

  /// Updates the elements of one pack. `gradient`: the gradient that Rule::update receives.
  CARILLON_HOST_DEVICE static void update_elements(Elements& elements, const Values& gradient,
                                                   const UpdateFactors& of_variable, const StepScalars& of_step,
                                                   bool ahead) {
    const StepScalars scalars = scalars_of<Rule>(of_step, of_variable);
    const bool trains = of_variable.trains_at(of_step.step);
    for (int k = 0; k < FlatShare::pack; ++k) {
      float of_element[slot_places] = {};
      for (int s = 0; s < slot_count; ++s) of_element[s] = elements.kept[s].at[k];
      float& value = elements.value.at[k];
      // Applies the rule and the lookahead in the same order as update_element. This code does not call update_element:
      // the pointer to the slow copy in update_element may be null, which would need local memory.
      if (trains) Rule::update(scalars, of_variable, gradient.at[k], value, of_element);
      if (ahead) look_ahead(scalars, value, elements.slow.at[k]);
      update_copies(scalars, value, &elements.average.at[k], nullptr);
      for (int s = 0; s < slot_count; ++s) elements.kept[s].at[k] = of_element[s];
    }
  }

  CARILLON_HOST_DEVICE void store_elements(const Elements& elements, std::size_t i, bool ahead) const {
    store(elements.value, values + i);
    if (compute_copies != nullptr) {
      const ComputeCopyIndex& compute_copy = compute_copies[factors.variables[i / line_floats]];
      if (compute_copy.data != nullptr) compute_copy.write(elements.value, i);
    }
    if (averages != nullptr) store(elements.average, averages + i);
    if (ahead) store(elements.slow, slow + i);
    for (int s = 0; s < slot_count; ++s) store(elements.kept[s], slots[s] + i);
  }
};

}  // namespace carillon
