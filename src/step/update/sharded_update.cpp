#include "src/step/update/sharded_update.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"

namespace carillon {
namespace {

SharedHostMemory& memory_of(Communicator& communicator) {
  SharedHostMemory* const memory = communicator.shared_host_memory();
  check(memory != nullptr, "a sharded update requires memory that all ranks share");
  return *memory;
}

std::size_t gradient_bytes_of(const UpdateContext& context) {
  return gradient_bytes(ParameterLayout(context.graph.parameters()), context.step_sums);
}

ShardLog::Form log_form(const UpdateContext& context) {
  return {.count = ParameterLayout(context.graph.parameters()).total(),
          .slots = optimizer_slots(context.optimizer).size(),
          .ranks = static_cast<std::size_t>(context.communicator.size()),
          .threads = static_cast<std::size_t>(omp_get_max_threads())};
}

/// Returns the number of bytes that a rank needs to publish its sums of squares (ShardNorm). It is 0 if there is only
/// one rank, or without --clip-norm.
std::size_t norm_bytes(const UpdateContext& context) {
  if (context.optimizer.clip_norm == 0.0) return 0;
  return ShardNorm::bytes(ParameterLayout(context.graph.parameters()).total());
}

/// The communicator's memory, from which other ranks copy, holds in this order: gradients, variables and, with several
/// ranks, the sums of squares and the log. The log is last, because its length differs between ranks with different
/// numbers of threads.
ParameterStore make_parameters(const UpdateContext& context, SharedHostMemory& memory) {
  const std::size_t of_gradients = gradient_bytes_of(context);
  const std::size_t of_values = value_bytes(ParameterLayout(context.graph.parameters()));
  const ShardLog::Form form = log_form(context);
  const std::size_t of_log_and_sums =
      context.communicator.size() == 1 ? 0 : norm_bytes(context) + ShardLog::bytes(form);
  std::vector<Slot> slots = optimizer_slots(context.optimizer);
  Buffer own = context.communicator.allocate(of_gradients + of_values + of_log_and_sums);
  Buffer values(static_cast<std::byte*>(own.data()) + of_gradients, of_values, [](void*) {});
  Buffer of_slots = memory.allocate(slots.size() * of_values);
  return {context.graph.parameters(), context.device,
          ParameterMemory{.gradients = std::move(own), .values = std::move(values), .slots = std::move(of_slots)},
          std::move(slots), context.step_sums};
}

}  // namespace

std::size_t ShardNorm::bytes(std::size_t count) {
  return aligned_bytes(GradientNorm::block_count(count) * sizeof(double));
}

ShardNorm::ShardNorm(GradientNorm norm, const ParameterStore& parameters, SharedHostMemory& memory, std::byte* own)
    : norm_(std::move(norm)), parameters_(parameters), memory_(memory), own_(own), square_sums_(norm_.block_count()) {}

Slice ShardNorm::elements_of(int rank) const {
  const std::size_t blocks = norm_.block_count(), ranks = static_cast<std::size_t>(memory_.size());
  const auto edge = [&](std::size_t part) {
    return std::min(blocks * part / ranks * sum_block_floats, parameters_.layout().total());
  };
  return {edge(static_cast<std::size_t>(rank)), edge(static_cast<std::size_t>(rank) + 1)};
}

std::span<double> ShardNorm::published(int rank) const {
  return {reinterpret_cast<double*>(memory_.on_rank(rank, own_)), norm_.block_count()};
}

ClippedNorm ShardNorm::find(bool are_means) {
  const Slice own = elements_of(memory_.rank());
  const std::span<const float> gradients = parameters_.gradients_and_sums().subspan(own.begin, own.end - own.begin);
  const std::span<double> sums = published(memory_.rank());
  const auto take = [&](std::size_t first, std::span<const float> means) {
    sums[(own.begin + first) / sum_block_floats] = norm_.square_sum(own.begin + first, means);
  };
  if (are_means) {
    parallel_blocks(gradients.size(), sum_block_floats, elementwise_grain,
                    [&](std::size_t begin, std::size_t end) { take(begin, gradients.subspan(begin, end - begin)); });
  } else {
    memory_.means_of(gradients, take);
  }
  memory_.meet();
  for (int rank = 0; rank < memory_.size(); ++rank) {
    const Slice of_rank = elements_of(rank);
    const std::size_t begin = of_rank.begin / sum_block_floats, end = GradientNorm::block_count(of_rank.end);
    std::ranges::copy(published(rank).subspan(begin, end - begin),
                      square_sums_.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return norm_.of_blocks(square_sums_);
}

ShardedUpdate::ShardedUpdate(const UpdateContext& context)
    : device_(context.device),
      communicator_(context.communicator),
      memory_(memory_of(communicator_)),
      one_rank_(communicator_.size() == 1),
      parameters_(make_parameters(context, memory_)),
      reducer_(communicator_, parameters_, bucket_bytes_on(device_.kind(), context.bucket_bytes)),
      optimizer_(make_elementwise_optimizer(context.optimizer, parameters_, context.inputs)),
      end_{parameters_.step_sums().data(), context.inputs.progress},
      clips_(context.optimizer.clip_norm > 0.0),
      sums_(parameters_.step_sums().size()),
      gate_(context.gate) {
  if (one_rank_) return;
  std::byte* const after_values =
      reinterpret_cast<std::byte*>(parameters_.values().data()) + value_bytes(parameters_.layout());
  if (clips_) {
    norm_.emplace(GradientNorm(context.optimizer, parameters_, context.inputs), parameters_, memory_, after_values);
  }
  log_.emplace(log_form(context), after_values + norm_bytes(context), parameters_, memory_);
}

void ShardedUpdate::broadcast_from_first() {
  communicator_.broadcast(parameters_.values(), 0);  // the ranks share the slots, and rank 0 has already written them
}

void ShardedUpdate::begin_step(MeanGradients gradients) {
  // The clip factor of each variable depends on the gradients of all variables. Therefore a rank that is alone keeps
  // all gradients until the end of the backward pass.
  gradients_ = one_rank_ && clips_ ? MeanGradients::readable : gradients;
  allowed_.reset();
}

void ShardedUpdate::acquire(Stream& stream) {
  if (gradients_ == MeanGradients::readable) reducer_.begin(stream);
}

void ShardedUpdate::gradient_complete(int parameter, Stream& stream) {
  if (gradients_ == MeanGradients::readable) return reducer_.add(parameter, stream);
  if (!one_rank_) return;
  if (!allowed_) allowed_ = end_.allows_update();
  if (!*allowed_) return;
  if (gate_ != nullptr) gate_->enter();
  is_updating_ = true;
  const std::size_t offset = parameters_.layout().offset(parameter);
  memory_.means_of(parameters_.gradient(parameter).floats(), [&](std::size_t first, std::span<const float> means) {
    optimizer_->update_range(offset + first, means);
  });
}

void ShardedUpdate::enqueue_means() {
  if (gradients_ == MeanGradients::readable) {
    reducer_.finalize(device_.stream());
  } else if (!one_rank_) {
    average_and_update();
  }
  is_updating_ = false;
}

void ShardedUpdate::average_and_update() {
  if (gate_ != nullptr) gate_->enter();
  memory_.meet();
  // Other ranks read this rank's sums until the second barrier, so the means are stored in `sums_` until then.
  memory_.means_of(parameters_.step_sums(), [&](std::size_t first, std::span<const float> means) {
    std::ranges::copy(means, sums_.begin() + static_cast<std::ptrdiff_t>(first));
  });
  const bool allowed = StepEnd{sums_.data(), {}}.allows_update();
  if (allowed) clip();
  update_together(allowed);
  std::ranges::copy(sums_, parameters_.step_sums().begin());
}

void ShardedUpdate::clip() {
  if (!norm_) return;
  clipped_ = norm_->find(gradients_ == MeanGradients::readable);
  optimizer_->clip(clipped_);
}

std::optional<double> ShardedUpdate::gradient_norm() const {
  if (!clips_ || !end_.allows_update()) return std::nullopt;
  return one_rank_ ? optimizer_->gradient_norm() : clipped_.norm;
}

void ShardedUpdate::update_together(bool allowed) {
  is_updating_ = true;
  log_->begin();
  if (allowed) update_shard(memory_.rank());
  memory_.meet_after_update([&](int rank) {
    if (!allowed) return;
    log_->restore_open_blocks(rank);
    update_shard(rank);
  });
  if (allowed) memory_.gather(parameters_.values());
  is_updating_ = false;
}

void ShardedUpdate::update_shard(int owner) {
  const Slice shard = memory_.shard(parameters_.layout().total(), owner);
  const std::span<const float> gradients =
      parameters_.gradients_and_sums().subspan(shard.begin, shard.end - shard.begin);
  const auto update = [&](std::size_t first, std::span<const float> means) {
    log_->update_block(owner, first, [&] { optimizer_->update_range(shard.begin + first, means); });
  };
  if (gradients_ == MeanGradients::update_only) return memory_.means_of(gradients, update);
  parallel_blocks(gradients.size(), sum_block_floats, elementwise_grain,
                  [&](std::size_t begin, std::size_t end) { update(begin, gradients.subspan(begin, end - begin)); });
}

void ShardedUpdate::enqueue_update() {
  if (gradients_ == MeanGradients::update_only) return;  // gradient_complete or enqueue_means has updated the variables
  if (gate_ != nullptr) gate_->enter();
  memory_.meet();  // before this barrier, an observer on another rank may still read the old slots
  if (!one_rank_) {
    if (end_.allows_update()) clip();
    return update_together(end_.allows_update());
  }
  is_updating_ = true;
  optimizer_->apply(end_, device_.stream());
  is_updating_ = false;
}

}  // namespace carillon
