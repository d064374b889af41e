// ParameterStore: all variables of a network in one flat array, with gradients and the optimiser's slots in the same
// layout.
//
// The layout follows the backward order (last layer first), each tensor at a multiple of 64 bytes, so that gradients
// become complete from front to back and a bucket is a span. Gaps hold zeros and stay zero. After the last gradient
// come `step_sum_count` floats, or more, that are averaged over the towers with the gradients (the loss, for one).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/compute_copy.h"

namespace carillon {

struct Initializer {
  enum class Kind { constant, truncated_normal, uniform } kind = Kind::constant;
  /// The constant, or the standard deviation before truncation at two of it (no rescaling), or b of [-b, b).
  float value = 0.0f;
  /// The number by which the variable is drawn, for the networks that were drawn so before names counted; else by name.
  int number = -1;
  /// Of filters [height, width, in, out] with odd extents: the first min(in, out) pass on an input channel each, 1 in
  /// the middle and else 0, in place of what is drawn for them. Filter o, of input channel o (PyTorch's dirac).
  bool dirac = false;
};

struct ParameterSpec {
  std::string name;
  Shape shape;
  Initializer initializer;
  float l2_factor = 0.0f;  ///< c: adds c * sum(w^2) / 2 to the loss and c * w to the gradient
  bool trains = true;      ///< else it stays as it begins, whatever its group says
};

/// One further array of the parameters' layout that an optimiser keeps: momentum, a moving average.
struct Slot {
  std::string name;
  bool starts_as_values = false;  ///< equal to the variables, else zero
};

/// Where each parameter lies in a flat array; offsets and counts in elements.
class ParameterLayout {
 public:
  explicit ParameterLayout(const std::vector<ParameterSpec>& specs);

  std::size_t offset(int parameter) const { return offsets_.at(parameter); }
  std::size_t count(int parameter) const { return counts_.at(parameter); }
  /// Elements of the whole array, gaps included.
  std::size_t total() const { return total_; }
  /// Parameter indices by growing offset.
  const std::vector<int>& order() const { return order_; }

 private:
  std::vector<std::size_t> offsets_, counts_;
  std::vector<int> order_;
  std::size_t total_ = 0;
};

inline constexpr std::size_t step_sum_count = 16;
/// Places in ParameterStore::step_sums.
inline constexpr std::size_t loss_sum = 0, sync_sum = 1;

/// Zeroed memory for a store that is not to have all its memory from its device.
struct ParameterMemory {
  Buffer gradients;    ///< gradient_bytes (Communicator::allocate); nothing: nobody trains
  Buffer values = {};  ///< value_bytes; nothing: the device's
  Buffer slots = {};   ///< value_bytes for each slot, one after the other; nothing: the device's
  std::vector<ComputeCopy> compute_copies = {};  ///< of each parameter; none: nobody wants any
};
/// With so many step sums.
std::size_t gradient_bytes(const ParameterLayout& layout, std::size_t sum_count = step_sum_count);
std::size_t value_bytes(const ParameterLayout& layout);

class ParameterStore {
 public:
  /// Zeroed. `sum_count`: of step sums, at least step_sum_count.
  ParameterStore(std::vector<ParameterSpec> specs, Device& device, ParameterMemory memory, std::vector<Slot> slots = {},
                 std::size_t sum_count = step_sum_count);

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  const ParameterLayout& layout() const { return layout_; }
  const std::vector<Slot>& slots() const { return slots_; }
  /// The number of the slot of that name. Errors: failed (there is none).
  int slot_named(std::string_view name) const;

  Tensor value(int parameter) const { return view(values(), parameter); }
  /// No data when nobody trains.
  Tensor gradient(int parameter) const;
  Tensor slot(int slot, int parameter) const { return view(this->slot(slot), parameter); }
  /// By parameter, or none at all.
  const std::vector<ComputeCopy>& compute_copies() const { return memory_.compute_copies; }

  /// [layout().total()] on the device.
  std::span<float> values() const { return array(memory_.values, 0); }
  std::span<float> slot(int slot) const;
  /// [layout().total() + sum_count]: gradients, then the step sums.
  std::span<float> gradients_and_sums() const;
  std::span<float> step_sums() const { return gradients_and_sums().subspan(layout_.total()); }

 private:
  Tensor view(std::span<float> array, int parameter) const;
  /// Of those that follow each other in `buffer`.
  std::span<float> array(const Buffer& buffer, std::size_t number) const;

  std::vector<ParameterSpec> specs_;
  ParameterLayout layout_;
  std::vector<Slot> slots_;
  std::size_t sum_count_;
  ParameterMemory memory_;
};

/// Whether a variable's or state's whole name matches `pattern`, as a shell's; `*` matches `/` too.
bool name_matches(const std::string& pattern, const std::string& name);

/// Initial values of a variable, row-major: a function of (seed, name, element) alone (Philox), or of (seed, number,
/// element) where its initializer has a number. Errors: failed (dirac of what is no such filters).
std::vector<float> initial_values(const ParameterSpec& spec, std::uint64_t seed);

}  // namespace carillon
