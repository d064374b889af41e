// DirectGroup: base of the groups that send messages from each member directly to each other member.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/comm/transport/groups.h"
#include "src/comm/transport/point_to_point.h"

namespace carillon {

class DirectGroup : public Group {
 public:
  DirectGroup(Members members, SumOrder order) : members_(std::move(members)), order_(order) {}

  int rank() const final { return members_.rank(); }
  int size() const final { return members_.size(); }
  void broadcast(std::span<float> values, int root) final {
    broadcast_bytes(members_, std::as_writable_bytes(values), root, "a broadcast");
  }

 protected:
  const Members& members() const { return members_; }
  SumOrder order() const { return order_; }
  std::span<float> slice(std::span<float> values, int rank) const { return slice_of(values, rank, size()); }
  std::vector<int> peers() const { return others_of(rank(), size()); }

 private:
  Members members_;
  SumOrder order_;
};

/// Memory for messages of `Element`s. It is reused by later calls.
template <typename Element>
struct MessageMemory {
  std::unique_ptr<Element[]> elements;
  std::size_t capacity = 0;
};
template <typename Element>
using SpareMemory = std::vector<MessageMemory<Element>>;

/// Messages in flight and their memory, which is taken from `spare` if possible.
template <typename Element>
class BufferedPointToPoint {
 public:
  BufferedPointToPoint(const Members& members, std::size_t count, SpareMemory<Element>& spare)
      : spare_(spare), memory_(take(spare, count)), exchange_(members) {}
  ~BufferedPointToPoint() {
    if (exchange_.over()) {
      spare_.push_back(std::move(memory_));
    } else {
      static_cast<void>(memory_.elements.release());  // leaked: MPI may still write there, and the run has failed
    }
  }
  BufferedPointToPoint(const BufferedPointToPoint&) = delete;
  BufferedPointToPoint& operator=(const BufferedPointToPoint&) = delete;

  std::span<Element> part(Slice of) { return {memory_.elements.get() + of.begin, of.end - of.begin}; }
  void receive(Slice to, int from) { exchange_.receive(std::as_writable_bytes(part(to)), from); }
  void send(std::span<const Element> elements, int to) { exchange_.send(std::as_bytes(elements), to); }
  void wait(std::string_view operation) { exchange_.wait(operation); }

 private:
  static MessageMemory<Element> take(SpareMemory<Element>& spare, std::size_t count) {
    MessageMemory<Element> memory;
    if (!spare.empty()) {
      memory = std::move(spare.back());
      spare.pop_back();
    }
    if (memory.capacity < count) memory = {std::make_unique_for_overwrite<Element[]>(count), count};
    return memory;
  }

  SpareMemory<Element>& spare_;
  MessageMemory<Element> memory_;
  PointToPoint exchange_;
};

}  // namespace carillon
