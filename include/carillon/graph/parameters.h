// The arrays that a network keeps on its device from step to step: variables, their compute copies, and buffers.
//
// ParameterStore: all variables of a network in one flat array; gradients and optimiser slots have the same layout. The
// layout is the backward order (last layer first), so that backward completes the gradients at the front of the array
// first. A bucket is the part of the gradients that the ranks average in one message. Because of this layout, a bucket
// is one span. Each tensor starts at a multiple of 64 bytes; the gaps hold zeros.
//
// The step sums follow the last gradient. They are at least step_sum_count floats, for example this rank's loss. The
// all-reduce of the gradients includes the step sums, so that every rank gets their means over the ranks.
//
// ComputeCopy: a copy of a parameter with the element type and memory layout that matrix products read. The update
// writes the parameter and the copy, so that no step converts parameters. Only GPUs have compute copies.
//
// BufferStore: the buffers of a network. Buffers are tensors that no optimiser changes, for example the running
// statistics of batch norm. They are one flat float32 array on the device; each tensor starts at a multiple of 64
// bytes. In training, the forward pass of an op writes the op's buffers, except buffers with AcrossRanks::equal. In
// evaluation, the op reads them. Checkpoints store them in the group /state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/host_device.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"

namespace carillon {

struct Initializer {
  enum class Kind { constant, truncated_normal, uniform } kind = Kind::constant;
  /// The meaning depends on `kind`. constant: the value. truncated_normal: the standard deviation before truncation;
  /// draws beyond two standard deviations are repeated, and the result is not rescaled. uniform: b, for draws from [-b,
  /// b).
  float value = 0.0f;
  /// If not negative, random values depend on this number instead of the variable's name. Older networks set this
  /// number, so that their initial values did not change when Carillon introduced names of variables.
  int number = -1;
  /// For filters [height, width, in, out] with odd height and width: each filter o < min(in, out) copies input channel
  /// o: its only weight that is not 0 is a 1 in the middle of channel o, as in PyTorch's dirac_. The other filters are
  /// drawn as `kind` says. Ignored for Kind::constant.
  bool dirac = false;
};

struct ParameterSpec {
  std::string name;
  Shape shape;
  Initializer initializer;
  /// The factor c: the update adds c * w to the gradient. The L2 loss c * sum(w^2) / 2 is reported separately from the
  /// task's loss.
  float l2_factor = 0.0f;
  bool trains = true;  ///< false: the variable keeps its initial values, independent of its parameter group
  /// True for a table of vectors (an embedding). Some update rules treat vectors and matrices differently; these rules
  /// treat the table as a vector.
  bool is_embedding = false;
  int block = -1;  ///< the block of the network to which the variable belongs (Graph::set_block); -1: none
};

/// An array that an optimiser keeps, with the layout of the parameters, for example momentum or a moving average.
struct Slot {
  std::string name;
  bool starts_as_values = false;  ///< true: the array starts as a copy of the variables; false: it starts with zeros
};

/// The position of each parameter in a flat array; offsets and counts in elements.
class ParameterLayout {
 public:
  explicit ParameterLayout(const std::vector<ParameterSpec>& specs);

  std::size_t offset(int parameter) const { return offsets_.at(parameter); }
  std::size_t count(int parameter) const { return counts_.at(parameter); }
  /// Elements of the whole array, gaps included.
  std::size_t total() const { return total_; }
  /// Parameter indices by ascending offset.
  const std::vector<int>& order() const { return order_; }

 private:
  std::vector<std::size_t> offsets_, counts_;
  std::vector<int> order_;
  std::size_t total_ = 0;
};

enum class ComputeCopyFormat {
  none,
  same_layout,   ///< the layout of the parameter, with the element type of the activations
  filter_major,  ///< [last extent, all other extents] in the activations' type; `in` is padded to the channel count of
                 ///< the op's input
};

/// How pixels with padding channels are stored. The padding channels follow the pixel's own channels and hold 0.
struct ChannelPadding {
  std::uint32_t channels = 1, padded = 1;  ///< channels per pixel, without and with padding

  /// Returns the position of channel i in padded memory. i counts the channels of all pixels without padding.
  CARILLON_HOST_DEVICE std::uint32_t place(std::uint32_t i) const {
    return channels == padded ? i : i / channels * padded + i % channels;
  }
  /// Returns the number of elements that some pixels need in memory, including padding channels. `count`: the number of
  /// channels of all these pixels together, without padding channels.
  CARILLON_HOST_DEVICE std::int64_t extent(std::int64_t count) const {
    return channels == padded ? count : count / channels * padded;
  }
};

/// Returns the padding of filters [height, width, in, out] if the input has at least `in` channels.
inline ChannelPadding channel_padding(const Shape& filters, const Shape& input) {
  return {static_cast<std::uint32_t>(filters[2]), static_cast<std::uint32_t>(input.extents().back())};
}

struct ComputeCopy {
  Tensor tensor;  ///< a tensor without data: the parameter has no compute copy
  ComputeCopyFormat form = ComputeCopyFormat::none;
  ChannelPadding padding = {};  ///< filter_major: padding of the extent `in`
  Buffer memory = {};           ///< holds the tensor
};

inline constexpr std::size_t step_sum_count = 16;
/// Indices in ParameterStore::step_sums. loss_sum: the loss of the task. sync_sum: 1 if the rank sets
/// StepHeader::request_sync, otherwise 0.
inline constexpr std::size_t loss_sum = 0, sync_sum = 1;

/// The memory of a ParameterStore. The store owns these buffers and does not clear them. If `values` or `slots` is
/// empty, the store instead allocates zeroed memory on its device.
struct ParameterMemory {
  Buffer gradients;                              ///< gradient_bytes long; empty: no training
  Buffer values = {};                            ///< value_bytes long
  Buffer slots = {};                             ///< value_bytes for each slot, one slot after the other
  std::vector<ComputeCopy> compute_copies = {};  ///< one per parameter, or an empty vector
};
/// Bytes of all gradients and `sum_count` step sums.
std::size_t gradient_bytes(const ParameterLayout& layout, std::size_t sum_count = step_sum_count);
std::size_t value_bytes(const ParameterLayout& layout);

class ParameterStore {
 public:
  /// Values and slots start with the contents of `memory`, or with zeros if the store allocates them. `sum_count`:
  /// number of step sums, at least step_sum_count. Errors: failed (a buffer is too small).
  ParameterStore(std::vector<ParameterSpec> specs, Device& device, ParameterMemory memory, std::vector<Slot> slots = {},
                 std::size_t sum_count = step_sum_count);

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  const ParameterLayout& layout() const { return layout_; }
  const std::vector<Slot>& slots() const { return slots_; }
  /// Returns the index of the slot with that name. Errors: failed (no slot has this name).
  int slot_named(std::string_view name) const;

  Tensor value(int parameter) const { return view(values(), parameter); }
  /// Returns the gradient of a parameter, or a tensor without data outside training.
  Tensor gradient(int parameter) const;
  Tensor slot(int slot, int parameter) const { return view(this->slot(slot), parameter); }
  /// Returns the compute copy of each parameter, or an empty vector if there are none.
  const std::vector<ComputeCopy>& compute_copies() const { return memory_.compute_copies; }

  /// [layout().total()] all variables, on the device.
  std::span<float> values() const { return array(memory_.values, 0); }
  /// [layout().total()] the array of one slot, on the device. Errors: failed (no slot has this number).
  std::span<float> slot(int slot) const;
  /// [layout().total() + sum_count]: the gradients, followed by the step sums. Both this function and step_sums() have
  /// this error: failed (the store has no gradients).
  std::span<float> gradients_and_sums() const;
  std::span<float> step_sums() const { return gradients_and_sums().subspan(layout_.total()); }

 private:
  Tensor view(std::span<float> array, int parameter) const;
  /// Returns array number `number` in `buffer`, which holds consecutive arrays of layout().total() floats.
  std::span<float> array(const Buffer& buffer, std::size_t number) const;

  std::vector<ParameterSpec> specs_;
  ParameterLayout layout_;
  std::vector<Slot> slots_;
  std::size_t sum_count_;
  ParameterMemory memory_;
};

/// How checkpoints and evaluations combine the buffers of the ranks. Each rank has computed its own buffers, except
/// `equal` buffers.
enum class AcrossRanks {
  first,  ///< take the buffer of rank 0
  mean,   ///< take the mean over the ranks
  equal,  ///< no op changes the buffer, so all ranks have the same values
};

struct BufferSpec {
  std::string name;  ///< for example "norm1/moving_mean"; no parameter has the same name
  Shape shape;
  float initial_value = 0.0f;
  AcrossRanks across_ranks = AcrossRanks::first;
};

class BufferStore {
 public:
  /// Allocates all buffers and sets them to their initial values.
  BufferStore(std::vector<BufferSpec> specs, Device& device);

  const std::vector<BufferSpec>& specs() const { return specs_; }
  Tensor tensor(int buffer) const;
  /// Returns all buffers, on the device. The gaps between the buffers hold zeros.
  std::span<float> values() const { return {static_cast<float*>(memory_.data()), memory_.bytes() / sizeof(float)}; }

 private:
  std::vector<BufferSpec> specs_;
  std::vector<std::size_t> offsets_;  ///< offsets in elements
  Buffer memory_;
};

/// True if the whole name of a variable or buffer matches the shell pattern; `*` can also match `/`.
bool name_matches(const std::string& pattern, const std::string& name);
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);
/// Checks the patterns of an option. Errors: usage (a pattern matches no variable; the text names `option`, for example
/// "--freeze").
void check_patterns(const std::string& option, const std::vector<std::string>& patterns,
                    const std::vector<ParameterSpec>& variables);

/// Initial values of a variable, row-major. The values depend only on (seed, name, element), or on (seed, number,
/// element) if the initializer has a number (Philox). Errors: failed (the initializer has `dirac` and draws values, but
/// the shape is not [height, width, in, out] with odd height and width).
std::vector<float> initial_values(const ParameterSpec& spec, std::uint64_t seed);

}  // namespace carillon
