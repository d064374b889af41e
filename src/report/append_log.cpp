#include "src/report/append_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "carillon/core/error.h"

namespace carillon {

AppendLog::AppendLog(std::filesystem::path path, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {}

int AppendLog::open(bool exclusive) {
  // O_NONBLOCK: opening a FIFO must not wait for a reader.
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | (exclusive ? O_EXCL : 0);
  descriptor_ = Descriptor(::open(path_.c_str(), flags, 0666));
  struct stat status {};
  const bool is_known = descriptor_ && ::fstat(descriptor_.get(), &status) == 0;
  const int error = is_known ? 0 : errno;
  const bool is_file = is_known && S_ISREG(status.st_mode);
  if (is_file || error == EEXIST) return error;
  descriptor_ = Descriptor();
  if (error == 0 || error == ENXIO) {  // ENXIO: a FIFO without a reader
    warn(fmt::format("{}: is not a regular file", path_.string()));
  } else {
    warn("open", error);
  }
  return error != 0 ? error : EINVAL;
}

bool AppendLog::append(std::string_view bytes) {
  if (!descriptor_) return false;
  struct stat before {};
  if (::fstat(descriptor_.get(), &before) != 0) {
    warn("write", errno);
    return false;
  }
  const int error = write_all(descriptor_.get(), std::as_bytes(std::span(bytes)));
  if (error == 0) return true;
  // Readers stop at half an entry and would miss all entries after it.
  if (::ftruncate(descriptor_.get(), before.st_size) != 0) descriptor_ = Descriptor();
  warn("write", error);
  return false;
}

void AppendLog::warn(const std::string& cause) {
  if (!warned_ && warn_) warn_(cause + "; continuing without it");
  warned_ = true;
}

void AppendLog::warn(std::string_view action, int error) {
  warn(fmt::format("cannot {} {}: {}", action, path_.string(), errno_text(error)));
}

}  // namespace carillon
