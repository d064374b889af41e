#include "src/graph/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace carillon {
namespace {

bool overlap_in_time(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

bool is_used(const Lifetime& life) { return life.first <= life.last; }

bool has_backward(const Graph& graph, int op) {
  return std::ranges::any_of(graph.nodes()[op].outputs,
                             [&](int value) { return graph.values()[value].wants_gradient; });
}

int representative(const std::vector<Lifetime>& lifetimes, int item) {
  while (lifetimes[item].same_as >= 0) item = lifetimes[item].same_as;
  return item;
}

/// Gives two used tensors the same memory. The entry with the lower index then has a lifetime that covers both.
void join(std::vector<Lifetime>& lifetimes, int a, int b) {
  if (!is_used(lifetimes[a]) || !is_used(lifetimes[b])) return;
  const int one = representative(lifetimes, a), other = representative(lifetimes, b);
  if (one == other) return;
  Lifetime &kept = lifetimes[std::min(one, other)], &joined = lifetimes[std::max(one, other)];
  kept.bytes = std::max(kept.bytes, joined.bytes);
  kept.first = std::min(kept.first, joined.first);
  kept.last = std::max(kept.last, joined.last);
  joined.same_as = std::min(one, other);
}

/// Joins tensors that share memory. Afterwards, same_as is the index of the tensor that represents all of them.
void join_shared(const Graph& graph, std::vector<Lifetime>& values, std::vector<Lifetime>& gradients) {
  for (const Graph::Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::optional<int> input = node.definition->output_shares_input(static_cast<int>(i));
      if (input) join(values, node.inputs.at(*input), node.outputs[i]);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<int> output = node.definition->gradient_shares_output(static_cast<int>(i));
      if (output) join(gradients, node.inputs[i], node.outputs.at(*output));
    }
  }
  for (std::vector<Lifetime>* lifetimes : {&values, &gradients}) {
    for (Lifetime& life : *lifetimes) {
      if (life.same_as >= 0) life.same_as = representative(*lifetimes, life.same_as);
    }
  }
}

/// If only one tiled section uses the tensor, it needs one tile of memory per worker.
void keep_one_tile(Lifetime& life, const TiledSection& section) {
  if (!section.is_tiled() || life.first != life.last) return;
  life.bytes = tile_memory_bytes(life.bytes, section) * static_cast<std::size_t>(section.workers);
  life.per_worker = true;
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  MemoryPlan plan{std::vector<std::size_t>(lifetimes.size(), 0), 0};
  std::vector<std::size_t> placed;  // indices of the lifetimes that already have an offset, by ascending offset
  for (const std::size_t item : by_size) {
    const Lifetime& life = lifetimes[item];
    if (life.last < life.first || life.bytes == 0 || life.same_as >= 0) continue;
    std::size_t offset = 0;  // offset of the lowest gap that is large enough, between the tensors that are in use at
                             // the same time
    for (const std::size_t other : placed) {
      if (!overlap_in_time(life, lifetimes[other])) continue;
      if (offset + aligned_bytes(life.bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + aligned_bytes(lifetimes[other].bytes));
    }
    plan.offsets[item] = offset;
    plan.peak_bytes = std::max(plan.peak_bytes, offset + aligned_bytes(life.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](std::size_t at, std::size_t other) { return at < plan.offsets[other]; }),
                  item);
  }
  for (std::size_t item = 0; item < lifetimes.size(); ++item) {
    if (lifetimes[item].same_as >= 0) plan.offsets[item] = plan.offsets[lifetimes[item].same_as];
  }
  return plan;
}

std::vector<Lifetime> tensor_lifetimes(const Graph& graph, std::span<const TiledSection> sections, bool training,
                                       std::span<const Value> results) {
  const int section_count = static_cast<int>(sections.size());
  const int end = training ? 2 * section_count : section_count;
  std::vector<int> times;  // the time of the forward of each op
  for (int section = 0; section < section_count; ++section)
    times.resize(static_cast<std::size_t>(sections[section].last), section);
  const auto backward_time = [&](int op) { return 2 * section_count - 1 - times[op]; };

  std::vector<Lifetime> values, gradients;
  for (const Graph::ValueInfo& value : graph.values()) {
    const std::size_t bytes = static_cast<std::size_t>(value.shape.element_count()) * size_of(value.type);
    if (value.producer < 0) {
      values.push_back({bytes});
      gradients.push_back({bytes});
      continue;
    }
    if (value.gradient_of >= 0) {  // the reader's backward writes the gradient, even if the parameter is not trained
      const int reader = value.readers.front();
      values.push_back({bytes});
      gradients.push_back({bytes});
      if (training && has_backward(graph, reader)) {
        gradients.back() = {bytes, backward_time(reader), backward_time(value.producer)};
      }
      continue;
    }
    const int last_reader = value.readers.empty() ? -1 : value.readers.back();
    Lifetime life{bytes, times[value.producer], times[std::max(value.producer, last_reader)]};
    Lifetime gradient{bytes};
    if (training && value.wants_gradient) {
      const Graph::Node& producer = graph.nodes()[value.producer];
      const bool is_first = &graph.values()[producer.outputs.front()] == &value;
      if (is_first && producer.definition->backward_needs().outputs) life.last = backward_time(value.producer);
      if (last_reader >= 0) gradient = {bytes, backward_time(last_reader), backward_time(value.producer)};
    }
    for (const int reader : value.readers) {
      if (training && has_backward(graph, reader) && graph.nodes()[reader].definition->backward_needs().inputs) {
        life.last = std::max(life.last, backward_time(reader));
      }
    }
    values.push_back(life);
    gradients.push_back(gradient);
  }
  for (const Value result : results) values.at(result.index).last = end;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int producer = graph.values()[i].producer;
    if (producer < 0) continue;
    const TiledSection& section = sections[times[producer]];
    keep_one_tile(values[i], section);
    keep_one_tile(gradients[i], section);
  }
  join_shared(graph, values, gradients);
  if (training) {
    const int value_count = static_cast<int>(values.size());
    for (Lifetime& gradient : gradients) {
      if (gradient.same_as >= 0) gradient.same_as += value_count;
    }
    values.insert(values.end(), gradients.begin(), gradients.end());
  }
  return values;
}

}  // namespace carillon
