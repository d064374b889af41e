// Faulty calls: preloaded into a program (LD_PRELOAD), makes one of its system calls slow, or fail, on chosen files.
//
//   FAULT_CALL     write, fsync or statvfs; statvfs tells of no free space
//   FAULT_PATH     of files whose path contains this
//   FAULT_SECONDS  it takes so much longer (default 0)
//   FAULT_ERRNO    it fails with this (default 0: it does not)
//   FAULT_TIMES    for the first so many calls (default: all)
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

double number(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atof(text);
}

bool is_chosen(std::string_view call, std::string_view path) {
  const char *const chosen = std::getenv("FAULT_CALL"), *const part = std::getenv("FAULT_PATH");
  return chosen != nullptr && part != nullptr && call == chosen && path.find(part) != std::string_view::npos;
}

bool is_chosen(std::string_view call, int descriptor) {
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink(link.data(), path.data(), path.size());
  return length > 0 && is_chosen(call, std::string_view(path.data(), static_cast<std::size_t>(length)));
}

/// Whether the call is to fail, with errno set; slow ones have waited on return.
bool fails(std::string_view call, int descriptor) {
  static std::atomic<int> times = 0;
  if (!is_chosen(call, descriptor) || times++ >= number("FAULT_TIMES", INT_MAX)) return false;
  ::usleep(static_cast<useconds_t>(number("FAULT_SECONDS", 0.0) * 1e6));
  errno = static_cast<int>(number("FAULT_ERRNO", 0.0));
  return errno != 0;
}

template <typename Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  static const auto real = next<ssize_t(int, const void*, std::size_t)>("write");
  return fails("write", descriptor) ? -1 : real(descriptor, bytes, count);
}

int fsync(int descriptor) {
  static const auto real = next<int(int)>("fsync");
  return fails("fsync", descriptor) ? -1 : real(descriptor);
}

int statvfs(const char* path, struct statvfs* space) {
  static const auto real = next<int(const char*, struct statvfs*)>("statvfs");
  const int status = real(path, space);
  if (status == 0 && is_chosen("statvfs", path)) space->f_bavail = 0;
  return status;
}
}
