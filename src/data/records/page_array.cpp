#include "src/data/records/page_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "carillon/core/error.h"

namespace carillon {

PageArray::~PageArray() {
  if (data_) ::munmap(data_, capacity_);
}

std::uint8_t* PageArray::append(std::size_t bytes) {
  constexpr std::size_t granule = std::size_t{32} << 20;  // unit of virtual memory growth
  if (bytes > capacity_ - size_) grow(std::max(2 * capacity_, (size_ + bytes + granule - 1) / granule * granule));
  std::uint8_t* place = data_ + size_;
  size_ += bytes;
  return place;
}

void PageArray::grow(std::size_t capacity) {
  void* address =
      data_ ? ::mremap(data_, capacity_, capacity, MREMAP_MAYMOVE)
            : ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    fail(ExitCode::failed, "cannot allocate {} bytes for data: {}", capacity, errno_text(errno));
  data_ = static_cast<std::uint8_t*>(address);
  capacity_ = capacity;
  ::madvise(data_, capacity_, MADV_HUGEPAGE);  // a hint: kernels without huge pages refuse it
}

}  // namespace carillon
