#include "src/checkpoint/hdf5_support.h"

#include "src/checkpoint/checkpoint.h"

namespace carillon::hdf5 {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;  // HDF5 itself is one per process
  return mutex;
}

herr_t keep_first(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

}  // namespace

Session::Session() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &old_function_, &old_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() { H5Eset_auto2(H5E_DEFAULT, old_function_, old_data_); }

std::string last_error() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return text;
}

void Checker::refuse(std::string_view what) const {
  const auto reason = last_error();
  if (reason.empty()) fail(code_, "{}: {}", subject_, what);
  fail(code_, "{}: {} (HDF5: {})", subject_, what, reason);
}

Id memory_file_access(const Checker& check, std::size_t increment_bytes) {
  auto access = check.id(H5Pcreate(H5P_FILE_ACCESS), "no file access list");
  check.done(H5Pset_fapl_core(access.get(), increment_bytes, 0), "no core driver");
  // With a low bound of V18 or later the superblock of H5Fget_file_image has a stale checksum (HDF5 1.10.8).
  check.done(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST), "no format bounds");
  return access;
}

}  // namespace carillon::hdf5

namespace carillon {

LibraryVersion checkpoint_library() {
  unsigned major = 0, minor = 0, patch = 0;
  H5get_libversion(&major, &minor, &patch);
  return {"HDF5", dotted(static_cast<int>(major), static_cast<int>(minor), static_cast<int>(patch))};
}

}  // namespace carillon
