#include "carillon/graph/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace carillon {
namespace {

bool overlap_in_time(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

std::size_t aligned(std::size_t bytes) {
  return (bytes + tensor_alignment_bytes - 1) / tensor_alignment_bytes * tensor_alignment_bytes;
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  MemoryPlan plan{std::vector<std::size_t>(lifetimes.size(), 0), 0};
  std::vector<std::size_t> placed;  // by growing offset
  for (const std::size_t item : by_size) {
    const Lifetime& life = lifetimes[item];
    if (life.last < life.first || life.bytes == 0) continue;
    std::size_t offset = 0;  // the lowest gap between neighbours in time that is large enough
    for (const std::size_t other : placed) {
      if (!overlap_in_time(life, lifetimes[other])) continue;
      if (offset + aligned(life.bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + aligned(lifetimes[other].bytes));
    }
    plan.offsets[item] = offset;
    plan.peak_bytes = std::max(plan.peak_bytes, offset + aligned(life.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](std::size_t at, std::size_t other) { return at < plan.offsets[other]; }),
                  item);
  }
  return plan;
}

std::vector<Lifetime> tensor_lifetimes(const Graph& graph, bool training, std::span<const Value> results) {
  const int op_count = static_cast<int>(graph.nodes().size());
  const int end = training ? 2 * op_count : op_count;
  const auto backward_time = [&](int op) { return 2 * op_count - 1 - op; };

  std::vector<Lifetime> values, gradients;
  for (const Graph::ValueInfo& value : graph.values()) {
    const std::size_t bytes = static_cast<std::size_t>(value.shape.element_count()) * size_of(value.type);
    Lifetime life{bytes, value.producer, std::max(value.producer, value.consumer)};
    Lifetime gradient{bytes, 0, -1};
    if (training && value.wants_gradient) {
      if (graph.nodes()[value.producer].definition->backward_needs().outputs) life.last = backward_time(value.producer);
      if (value.consumer >= 0) gradient = {bytes, backward_time(value.consumer), backward_time(value.producer)};
    }
    if (training && value.consumer >= 0 && graph.nodes()[value.consumer].definition->backward_needs().inputs) {
      life.last = std::max(life.last, backward_time(value.consumer));
    }
    values.push_back(life);
    gradients.push_back(gradient);
  }
  for (const Value result : results) values.at(result.index).last = end;
  if (training) values.insert(values.end(), gradients.begin(), gradients.end());
  return values;
}

}  // namespace carillon
