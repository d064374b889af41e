#include "src/data/records/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/data/records/record_files.h"

namespace carillon {

MappedFile::MappedFile(const std::string& path) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    fail(ExitCode::data, "{}: is a directory; {}", path, record_files_hint(path, all_splits));
  }
  const Descriptor descriptor = open_plain_file(path, path);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail(ExitCode::io, "{}: {}", path, errno_text(errno));
  origin_ = {path, status.st_dev, status.st_ino, status.st_size, status.st_mtim};
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED) fail(ExitCode::io, "{}: cannot map the file: {}", path, errno_text(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), origin_(std::move(other.origin_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(origin_, other.origin_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::check_unchanged() const {
  struct stat now {};
  if (::stat(origin_.path.c_str(), &now) != 0) return;
  if (now.st_dev != origin_.device || now.st_ino != origin_.number) return;
  if (now.st_size != origin_.bytes) {
    throw FileChangedError(ExitCode::data, fmt::format("{}: changed while it was in use: it had {} bytes and has {}",
                                                       origin_.path, origin_.bytes, now.st_size));
  }
  if (now.st_mtim.tv_sec != origin_.changed.tv_sec || now.st_mtim.tv_nsec != origin_.changed.tv_nsec) {
    throw FileChangedError(ExitCode::data,
                           fmt::format("{}: changed while it was in use: it was written to", origin_.path));
  }
}

void MappedFile::expect_reading_through() const {
  if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_HUGEPAGE);
}

void MappedFile::expect_reading_in_places() const {
  if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_RANDOM);
}

void MappedFile::announce(std::uint64_t begin, std::uint64_t end) const {
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  begin -= begin % page_bytes;  // madvise requires a page boundary
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_WILLNEED);
}

void MappedFile::fetch(std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) const {
  constexpr std::uint64_t piece = std::uint64_t{4} << 20;
  const Descriptor descriptor(::open(origin_.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) return;
  std::vector<std::byte> read(std::min(piece, end - begin));
  while (begin < end && !stop.stop_requested()) {
    const std::uint64_t wanted = std::min<std::uint64_t>(read.size(), end - begin);
    const ssize_t count = ::pread(descriptor.get(), read.data(), wanted, static_cast<off_t>(begin));
    if (count <= 0) return;
    begin += static_cast<std::uint64_t>(count);
  }
}

void MappedFile::give_up(std::size_t end) const {
  if (end > 0) ::madvise(const_cast<std::byte*>(bytes_.data()), std::min(end, bytes_.size()), MADV_DONTNEED);
}

namespace {

thread_local sigjmp_buf* way_out = nullptr;  // jump target of this thread's current copy
struct sigaction earlier {};                 // action for SIGBUS that was set before the first copy

void leave_copy(int signal, siginfo_t* info, void* /*context*/) {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
  sigaction(SIGBUS, &earlier, nullptr);
  if (info->si_code <= 0) raise(signal);  // a process sent the signal: the copy itself would not raise it again
}

bool catch_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = leave_copy;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;  // the signal must not stay blocked after the jump
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, &earlier) == 0;
}

/// Copies like memcpy. Returns false if the bytes no longer exist. Has no local objects with destructors, because the
/// jump would skip these destructors.
bool copied(const std::byte* from, std::byte* to, std::size_t count) {
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    way_out = nullptr;
    return false;
  }
  way_out = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, from, count);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  way_out = nullptr;
  return true;
}

}  // namespace

void copy_mapped(std::span<const std::byte> from, std::byte* to) {
  static const bool ready = catch_bus_errors();
  static_cast<void>(ready);
  if (from.empty() || copied(from.data(), to, from.size())) return;
  fail(ExitCode::data, "the file was truncated while it was in use");
}

PageArray::~PageArray() {
  if (data_) ::munmap(data_, capacity_);
}

std::uint8_t* PageArray::append(std::size_t bytes) {
  constexpr std::size_t granule = std::size_t{32} << 20;  // number of bytes by which the virtual memory grows
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
  ::madvise(data_, capacity_, MADV_HUGEPAGE);  // this is a hint; kernels without huge pages refuse it
}

}  // namespace carillon
