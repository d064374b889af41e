// RAII for HDF5: IDs with one owner, a lock around all calls, and errors with one-line messages.
#pragma once

#define H5_USE_110_API  // makes newer HDF5 versions keep the API of version 1.10
#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/handle.h"

namespace carillon::hdf5 {

/// An ID of any kind. H5Idec_ref closes the object with the last reference.
using Id = Handle<hid_t, H5Idec_ref, H5I_INVALID_HID>;

/// A guard that every caller of HDF5 holds. It admits one thread at a time, because the library may not be thread-safe.
/// The guard also disables the printing of error stacks, and HDF5's exit handler. The exit handler crashes if memory
/// has been exhausted. The exit handler is not needed, because all files are in memory and all IDs have owners.
class Session {
 public:
  Session() : lock_(library_mutex()) {
    [[maybe_unused]] static const herr_t no_handler = H5dont_atexit();  // the call has an effect only before all other
                                                                        // calls
    H5Eget_auto2(H5E_DEFAULT, &old_function_, &old_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Session() { H5Eset_auto2(H5E_DEFAULT, old_function_, old_data_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  static std::mutex& library_mutex() {
    static std::mutex mutex;  // HDF5 has one global state per process
    return mutex;
  }

  std::unique_lock<std::mutex> lock_;
  H5E_auto2_t old_function_ = nullptr;
  void* old_data_ = nullptr;
};

/// Returns the innermost line of the HDF5 error stack.
inline std::string last_error() {
  std::string text;
  const auto keep_first = [](unsigned depth, const H5E_error2_t* error, void* kept) -> herr_t {
    if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(kept) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return text;
}

/// True if the HDF5 error stack reports a lack of memory.
inline bool is_out_of_memory() {
  bool found = false;
  const auto look = [](unsigned /*depth*/, const H5E_error2_t* error, void* result) -> herr_t {
    *static_cast<bool*>(result) |= error->min_num == H5E_CANTALLOC || error->min_num == H5E_NOSPACE;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look, &found);
  return found;
}

/// Throws Error(code) for a negative return value: "<what> (HDF5: <reason>)". If memory is exhausted, the exit code is
/// `failed` instead, because the file is not the cause.
class Checker {
 public:
  Checker(ExitCode code, std::string subject) : code_(code), subject_(std::move(subject)) {}

  Id id(hid_t value, std::string_view what) const {
    if (value < 0) refuse(what);
    return Id(value);
  }
  void done(herr_t status, std::string_view what) const {
    if (status < 0) refuse(what);
  }
  /// Throws an error with the text "<subject>: <what>". Appends HDF5's reason if HDF5 states one.
  [[noreturn]] void refuse(std::string_view what) const {
    const auto reason = last_error();
    if (is_out_of_memory()) fail(ExitCode::failed, "{}: {}: out of memory (HDF5: {})", subject_, what, reason);
    if (reason.empty()) fail(code_, "{}: {}", subject_, what);
    fail(code_, "{}: {} (HDF5: {})", subject_, what, reason);
  }

 private:
  ExitCode code_;
  std::string subject_;
};

/// Creates file access properties for a file in memory that grows by `increment_bytes`.
inline Id memory_file_access(const Checker& check, std::size_t increment_bytes) {
  auto access = check.id(H5Pcreate(H5P_FILE_ACCESS), "no file access list");
  check.done(H5Pset_fapl_core(access.get(), increment_bytes, 0), "no core driver");
  // With a low bound of V18 or later, the superblock that H5Fget_file_image returns has a stale checksum (HDF5 1.10.8).
  check.done(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST), "no format bounds");
  return access;
}

}  // namespace carillon::hdf5
