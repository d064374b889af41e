#include "memory.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "fake_cuda.h"
#include "objects.h"
#include "timeline.h"

namespace fake_cuda {
namespace {

constexpr std::size_t page = 4096, alignment = 256;
constexpr std::size_t most_filled_bytes = std::size_t{4} << 20;
constexpr int garbage = 0xff;

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

/// Signal handler: prints that an access was invalid. Then the processor repeats the access without this handler, and
/// the process ends.
void explain_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  constexpr char text[] =
      "fake CUDA: device memory was touched by the host outside of kernels and copies, or a kernel left its block\n";
  if (device_memory().is_near(info->si_addr)) static_cast<void>(!write(STDERR_FILENO, text, sizeof(text) - 1));
  signal(SIGSEGV, SIG_DFL);
}

void install_explanation() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = explain_fault;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGSEGV, &action, nullptr) == 0;
  }();
  static_cast<void>(installed);
}

}  // namespace

DeviceMemory& device_memory() {
  static DeviceMemory instance;
  return instance;
}

PinnedMemory& pinned_memory() {
  static PinnedMemory instance;
  return instance;
}

DeviceMemory::Access::Access() {
  DeviceMemory& memory = device_memory();
  if (memory.accesses_++ > 0) return;
  for (const auto& [begin, block] : memory.blocks_) protect(block, PROT_READ | PROT_WRITE);
}

DeviceMemory::Access::~Access() {
  DeviceMemory& memory = device_memory();
  if (--memory.accesses_ > 0) return;
  for (const auto& [begin, block] : memory.blocks_) protect(block, PROT_NONE);
}

void DeviceMemory::protect(const Block& block, int protection) {
  if (mprotect(block.mapping + page, block.mapping_bytes - 2 * page, protection) != 0) misuse("mprotect failed");
}

void* DeviceMemory::allocate(std::size_t bytes, int device) {
  install_explanation();
  const std::size_t size = round_up(bytes, alignment);
  Block block{.bytes = bytes, .device = device, .mapping_bytes = round_up(size, page) + 2 * page};
  void* mapping = mmap(nullptr, block.mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  block.mapping = static_cast<std::byte*>(mapping);
  std::byte* const data = block.mapping + block.mapping_bytes - page - size;
  protect(block, PROT_READ | PROT_WRITE);
  std::memset(data, garbage, std::min(size, most_filled_bytes));
  std::memset(data + bytes, garbage, size - bytes);
  if (accesses_ == 0) protect(block, PROT_NONE);
  blocks_.emplace(data, block);
  return data;
}

void DeviceMemory::release(void* pointer) {
  const auto found = blocks_.find(static_cast<const std::byte*>(pointer));
  if (found == blocks_.end()) misuse("cudaFree of what cudaMalloc did not give, or twice");
  const Block& block = found->second;
  protect(block, PROT_READ | PROT_WRITE);
  const std::byte* const end = found->first + block.bytes;
  const std::size_t slack = round_up(block.bytes, alignment) - block.bytes;
  if (!std::all_of(end, end + slack, [](std::byte value) { return value == std::byte{garbage}; })) {
    misuse(fmt::format("a kernel wrote past the end of a block of {} bytes", block.bytes));
  }
  munmap(block.mapping, block.mapping_bytes);
  blocks_.erase(found);
}

const std::pair<const std::byte* const, DeviceMemory::Block>* DeviceMemory::block_of(const void* pointer) const {
  const auto* address = static_cast<const std::byte*>(pointer);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  --next;
  return address < next->first + std::max<std::size_t>(next->second.bytes, 1) ? &*next : nullptr;
}

bool DeviceMemory::holds(const void* pointer, std::size_t bytes) const {
  const auto* found = block_of(pointer);
  if (found == nullptr) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - found->first);
  if (offset + bytes > found->second.bytes) {
    misuse(fmt::format("{} bytes at {} of a device block of {}", bytes, offset, found->second.bytes));
  }
  check_current(found->second.device, "device memory");
  return true;
}

bool DeviceMemory::is_near(const void* address) const {
  return std::ranges::any_of(blocks_, [&](const auto& entry) {
    return address >= entry.second.mapping && address < entry.second.mapping + entry.second.mapping_bytes;
  });
}

std::size_t DeviceMemory::used_bytes(int device) const {
  std::size_t sum = 0;
  for (const auto& [begin, block] : blocks_) sum += block.device == device ? round_up(block.bytes, page) : 0;
  return sum;
}

void* PinnedMemory::allocate(std::size_t bytes) {
  void* data = std::aligned_alloc(page, round_up(std::max<std::size_t>(bytes, 1), page));
  if (data == nullptr) return nullptr;
  std::memset(data, garbage, bytes);
  add(data, bytes);
  return data;
}

void PinnedMemory::release(void* pointer) {
  if (!remove(pointer)) misuse("cudaFreeHost of what cudaHostAlloc did not give, or twice");
  std::free(pointer);
}

bool PinnedMemory::add(const void* pointer, std::size_t bytes) {
  return blocks_.emplace(static_cast<const std::byte*>(pointer), bytes).second;
}

bool PinnedMemory::remove(const void* pointer) { return blocks_.erase(static_cast<const std::byte*>(pointer)) == 1; }

bool PinnedMemory::holds(const void* pointer, std::size_t bytes) const {
  const auto* address = static_cast<const std::byte*>(pointer);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return false;
  --next;
  const auto offset = static_cast<std::size_t>(address - next->first);
  if (offset >= next->second) return false;
  if (offset + bytes > next->second) misuse("a copy runs past the end of page-locked memory");
  return true;
}

Place place_of(const void* pointer, std::size_t bytes) {
  if (device_memory().holds(pointer, bytes)) return Place::device;
  return pinned_memory().holds(pointer, bytes) ? Place::pinned : Place::pageable;
}

void fill(void* pointer, int value, std::size_t bytes) {
  auto* const begin = static_cast<std::byte*>(pointer);
  std::byte* const first_page = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(begin), page));
  constexpr std::size_t large = std::size_t{1} << 20;
  if (value != 0 || bytes < large) {
    std::memset(begin, value, bytes);
    return;
  }
  const std::size_t head = static_cast<std::size_t>(first_page - begin);
  const std::size_t pages = (bytes - head) / page * page;
  std::memset(begin, 0, head);
  madvise(first_page, pages, MADV_DONTNEED);
  std::memset(first_page + pages, 0, bytes - head - pages);
}

}  // namespace fake_cuda
