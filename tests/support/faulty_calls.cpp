// A library for LD_PRELOAD that injects faults into a program. For selected files, it makes system calls slow, short or
// failing, or kills the program at a call.
//
//   FAULT_PATH     pattern of the files' paths; * also matches /
//   FAULT_CALL     names of the calls (see below), such as write or open,close or all
//   FAULT_NTH      number of the first selected call that gets the fault (default: 1)
//   FAULT_TIMES    number of calls that get the fault (default: all)
//   FAULT_SECONDS  delay of the calls
//   FAULT_ERRNO    error of the calls; close closes the file nevertheless
//   FAULT_ACTION   kill-before, kill-after: SIGKILL to the process just before or after the call; short: a write writes
//                  half of its bytes; cut: short, then SIGKILL; full: statvfs reports no free space
//   FAULT_LOG      a file that gets a line for each selected call: name and path (of a rename: the old path)
// The library intercepts calls through the PLT. According to strace, Carillon and libstdc++'s filesystem library make
// no other calls on files of the train directory, except fdopendir and closedir. HDF5 builds its images in memory. The
// library would not see writes by stdio or streams, because these calls stay inside libc and libstdc++.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

std::string text(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

double number(const char* name, double otherwise) {
  const std::string value = text(name);
  return value.empty() ? otherwise : std::atof(value.c_str());
}

struct Settings {
  std::string path = text("FAULT_PATH"), action = text("FAULT_ACTION"), log = text("FAULT_LOG");
  std::string calls = std::string(",").append(text("FAULT_CALL")).append(",");
  double first = number("FAULT_NTH", 1), count = number("FAULT_TIMES", INT_MAX), seconds = number("FAULT_SECONDS", 0);
  int error = static_cast<int>(number("FAULT_ERRNO", 0));
};

const Settings& settings() {
  static const Settings read;
  return read;
}

template <typename Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int descriptor) {
  const int before = errno;
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  errno = before;
  return {path.data(), static_cast<std::size_t>(length > 0 ? length : 0)};
}

/// Returns the path of `name`. If `name` does not start with /, it is relative to the open directory `directory`.
std::string path_of(int directory, const char* name) {
  return directory == AT_FDCWD || name[0] == '/' ? name : path_of(directory) + "/" + name;
}

bool is_chosen(const std::string& call, const std::string& path) {
  const Settings& chosen = settings();
  if (chosen.calls != ",all," && chosen.calls.find("," + call + ",") == std::string::npos) return false;
  return ::fnmatch(chosen.path.c_str(), path.c_str(), 0) == 0;
}

void log(const std::string& line) {
  static const auto open = next<int(const char*, int, ...)>("open");
  static const auto write = next<ssize_t(int, const void*, std::size_t)>("write");
  static const auto close = next<int(int)>("close");
  const int descriptor = open(settings().log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  static_cast<void>(write(descriptor, line.data(), line.size()));
  close(descriptor);
}

[[noreturn]] void die() {
  for (;;) ::kill(::getpid(), SIGKILL);
}

struct Fault {
  int error = 0;
  std::string_view action{};

  bool halves() const { return action == "short" || action == "cut"; }
};

/// Returns the fault that this call gets. If the fault is a delay, waits before it returns.
Fault fault_of(const std::string& call, const std::string& path) {
  static std::atomic<int> count = 0;
  if (!is_chosen(call, path)) return {};
  const Settings& chosen = settings();
  if (!chosen.log.empty()) log(call + " " + path + "\n");
  const int number = ++count;
  if (number < chosen.first || number - chosen.first >= chosen.count) return {};
  ::usleep(static_cast<useconds_t>(chosen.seconds * 1e6));
  if (chosen.action == "kill-before") die();
  return {chosen.error, chosen.action};
}

/// If the fault is an error, returns `failure`; otherwise makes the system call and returns real(fault). If the fault
/// is kill-after or cut, kills the process after the call.
template <typename Result, typename Real>
Result faulty(const std::string& call, const std::string& path, Result failure, Real real) {
  const int before = errno;
  const Fault fault = fault_of(call, path);
  errno = before;
  if (fault.error != 0) {
    errno = fault.error;
    return failure;
  }
  const Result result = real(fault);
  if (fault.action == "kill-after" || fault.action == "cut") die();
  return result;
}

std::size_t part_of(std::size_t count, const Fault& fault) { return fault.halves() ? (count + 1) / 2 : count; }

mode_t mode_in(int flags, std::va_list& arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

// Defines the function `name`, which replaces a function of libc that returns `Result` and works on the file `path`.
// The expression `...` calls the real function. The defined function returns its value, or `failure` if the fault is an
// error.
#define FAULTY_CALL(Result, name, parameters, path, failure, ...)                   \
  Result name parameters {                                                          \
    static const auto real = next<Result parameters>(#name);                        \
    return faulty<Result>(#name, path, failure, [&](const Fault& fault) -> Result { \
      static_cast<void>(fault);                                                     \
      return real(__VA_ARGS__);                                                     \
    });                                                                             \
  }

extern "C" {

int open(const char* name, int flags, ...) {
  static const auto real = next<int(const char*, int, ...)>("open");
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return faulty("open", name, -1, [&](const Fault&) { return real(name, flags, mode); });
}

int openat(int directory, const char* name, int flags, ...) {
  static const auto real = next<int(int, const char*, int, ...)>("openat");
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return faulty("openat", path_of(directory, name), -1,
                [&](const Fault&) { return real(directory, name, flags, mode); });
}

int close(int descriptor) {
  static const auto real = next<int(int)>("close");
  const std::string path = path_of(descriptor);  // determines the path before the descriptor is closed
  const int status = faulty("close", path, INT_MIN, [&](const Fault&) { return real(descriptor); });
  if (status != INT_MIN) return status;
  const int error = errno;
  real(descriptor);
  errno = error;
  return -1;
}

FAULTY_CALL(ssize_t, read, (int file, void* bytes, std::size_t count), path_of(file), -1, file, bytes, count)
FAULTY_CALL(ssize_t, pread, (int file, void* bytes, std::size_t count, off_t at), path_of(file), -1, file, bytes, count,
            at)
FAULTY_CALL(ssize_t, write, (int file, const void* bytes, std::size_t count), path_of(file), -1, file, bytes,
            part_of(count, fault))
FAULTY_CALL(ssize_t, pwrite, (int file, const void* bytes, std::size_t count, off_t at), path_of(file), -1, file, bytes,
            part_of(count, fault), at)
FAULTY_CALL(int, fsync, (int file), path_of(file), -1, file)
FAULTY_CALL(int, fdatasync, (int file), path_of(file), -1, file)
FAULTY_CALL(int, ftruncate, (int file, off_t length), path_of(file), -1, file, length)
FAULTY_CALL(int, flock, (int file, int operation), path_of(file), -1, file, operation)
FAULTY_CALL(int, fstat, (int file, struct stat* status), path_of(file), -1, file, status)
FAULTY_CALL(int, stat, (const char* name, struct stat* status), name, -1, name, status)
FAULTY_CALL(int, lstat, (const char* name, struct stat* status), name, -1, name, status)
FAULTY_CALL(int, access, (const char* name, int mode), name, -1, name, mode)
FAULTY_CALL(int, mkdir, (const char* name, mode_t mode), name, -1, name, mode)
FAULTY_CALL(int, truncate, (const char* name, off_t length), name, -1, name, length)
FAULTY_CALL(int, memfd_create, (const char* name, unsigned flags), name, -1, name, flags)
FAULTY_CALL(int, rename, (const char* name, const char* to), name, -1, name, to)
FAULTY_CALL(int, unlink, (const char* name), name, -1, name)
FAULTY_CALL(int, unlinkat, (int folder, const char* name, int flags), path_of(folder, name), -1, folder, name, flags)
FAULTY_CALL(int, remove, (const char* name), name, -1, name)
FAULTY_CALL(dirent*, readdir, (DIR * folder), path_of(::dirfd(folder)), nullptr, folder)

int statvfs(const char* name, struct statvfs* space) {
  static const auto real = next<int(const char*, struct statvfs*)>("statvfs");
  return faulty("statvfs", name, -1, [&](const Fault& fault) {
    const int status = real(name, space);
    if (status == 0 && fault.action == "full") space->f_bavail = 0;
    return status;
  });
}
}
