#include "src/launch/folder_lock.h"

#include <fcntl.h>

#include "carillon/core/error.h"
#include "src/core/file_tools.h"

namespace carillon {

FolderLock::FolderLock(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // a failure is reported below
  const std::filesystem::path path = folder / ".carillon.lock";
  file_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT, 0644));  // without O_CLOEXEC: children inherit the lock
  if (file_.get() < 0) fail(ExitCode::io, "{}: cannot write: {}", path.string(), errno_text(errno));
}

bool FolderLock::try_lock(Kind kind) const {
  return carillon::try_lock(file_.get(), kind == Kind::exclusive) != LockOutcome::held;
}

}  // namespace carillon
