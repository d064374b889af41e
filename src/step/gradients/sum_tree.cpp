#include "src/step/gradients/sum_tree.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "carillon/core/sum_in_order.h"

namespace carillon {
namespace {

float* floats_of(const Buffer& buffer) { return static_cast<float*>(buffer.data()); }

}  // namespace

void SumTree::add(int leaf, std::span<const float> values) {
  check(leaf >= 0 && leaf < leaves_ && values.size() == count_,
        "an array of another size, or of an unknown leaf, was added to a sum");
  const float* sum = values.data();
  Buffer own;  // holds `sum` after the first addition
  for (Node node{.level = 0, .index = leaf};; node = node.parent()) {
    Buffer other;
    {
      const std::lock_guard lock(mutex_);
      other = remove(node.neighbour());
      if (other.data() == nullptr && own.data() == nullptr) own = spare_buffer();
    }
    if (other.data() == nullptr) {
      if (sum == values.data()) std::ranges::copy(values, floats_of(own));
      const std::lock_guard lock(mutex_);
      other = remove(node.neighbour());  // may have been added meanwhile
      if (other.data() == nullptr) {
        kept_[node] = std::move(own);
        return;
      }
    }
    const float* const parts[] = {sum, floats_of(other)};
    sum = floats_of(other);
    sum_in_order(parts, count_, 1.0f, floats_of(other));
    std::swap(own, other);
    if (other.data() == nullptr) continue;
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(other));
  }
}

void SumTree::finish(float factor, std::span<float> out) {
  // Whole subtrees. The smaller ones contain the last leaves. The tree joins them from the smallest on.
  std::vector<float*> rest;
  int leaves = 0;
  for (const auto& [node, array] : kept_) {
    leaves += 1 << node.level;
    if (rest.size() == 2) {
      sum_in_order(rest, count_, 1.0f, rest.back());
      rest.erase(rest.begin());
    }
    rest.push_back(floats_of(array));
  }
  check(leaves == leaves_ && out.size() == count_, "a sum is finished before all arrays are added");
  sum_in_order(rest, count_, factor, out.data());
  while (!kept_.empty()) spare_.push_back(remove(kept_.begin()->first));
}

Buffer SumTree::remove(Node node) {
  const auto found = kept_.find(node);
  if (found == kept_.end()) return {};
  Buffer array = std::move(found->second);
  kept_.erase(found);
  return array;
}

Buffer SumTree::spare_buffer() {
  if (spare_.empty()) return device_.allocate(count_ * sizeof(float));
  Buffer array = std::move(spare_.back());
  spare_.pop_back();
  return array;
}

}  // namespace carillon
