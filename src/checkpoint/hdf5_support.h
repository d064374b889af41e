// HDF5 in RAII: ids with one owner, a quiet session that one thread holds at a time, failures as one line.
#pragma once

#define H5_USE_110_API  // names mean in later versions what they mean in the oldest that there is to build with
#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/handle.h"

namespace carillon::hdf5 {

/// An id of any kind: H5Idec_ref closes what it names with the last reference.
using Id = Handle<hid_t, H5Idec_ref, H5I_INVALID_HID>;

/// Held around all HDF5 calls. The library may be built without thread safety, so one thread at a time; and it prints
/// its error stack unless told not to.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  H5E_auto2_t old_function_ = nullptr;
  void* old_data_ = nullptr;
};

/// The innermost line of HDF5's error stack.
std::string last_error();

/// Turns a negative return value into Error(code): "<what> (HDF5: <its reason>)".
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
  /// "<subject>: <what>" and, where HDF5 gave one, its reason.
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  ExitCode code_;
  std::string subject_;
};

/// File access in memory only; the buffer grows by `increment_bytes`.
Id memory_file_access(const Checker& check, std::size_t increment_bytes);

}  // namespace carillon::hdf5
