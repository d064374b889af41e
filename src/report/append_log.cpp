#include "src/report/append_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "carillon/core/error.h"

namespace carillon {

AppendLog::AppendLog(std::filesystem::path path, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {}

int AppendLog::open(bool exclusive) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (exclusive ? O_EXCL : 0);
  descriptor_ = Descriptor(::open(path_.c_str(), flags, 0666));
  const int error = descriptor_ ? 0 : errno;
  if (error != 0 && error != EEXIST) warn("open", error);
  return error;
}

void AppendLog::append(std::string_view bytes) {
  if (!descriptor_) return;
  struct stat before {};
  int error = ::fstat(descriptor_.get(), &before) == 0 ? 0 : errno;
  if (error == 0) error = write_all(descriptor_.get(), std::as_bytes(std::span(bytes)));
  if (error == 0) return;
  // Half an entry would hide all that follow from the file's readers.
  if (::ftruncate(descriptor_.get(), before.st_size) != 0) descriptor_ = Descriptor();
  warn("write", error);
}

void AppendLog::warn(const std::string& cause) {
  if (!warned_ && warn_) warn_(cause + "; going on without it");
  warned_ = true;
}

void AppendLog::warn(std::string_view action, int error) {
  warn(fmt::format("cannot {} {}: {}", action, path_.string(), errno_text(error)));
}

}  // namespace carillon
