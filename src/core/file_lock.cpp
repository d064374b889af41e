#include "src/core/file_lock.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace carillon {

LockOutcome try_lock(int descriptor, bool exclusive) {
  if (flock(descriptor, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return LockOutcome::locked;
  return errno == EWOULDBLOCK ? LockOutcome::held : LockOutcome::none;
}

bool same_file(int descriptor, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return fstat(descriptor, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace carillon
