// Records: how training and evaluation open the data set that a program is for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "carillon/comm/mpi.h"
#include "carillon/data/dataset.h"
#include "carillon/data/decoder.h"

namespace carillon {

/// The form of a program's records.
struct RecordForm {
  RecordSchema schema;
  std::unique_ptr<RecordDecoder> (*make_decoder)(RecordSchema schema) = make_grey_decoder;
};

struct RecordOptions {
  std::string image_key, label_key;  ///< features of a record; empty: the form's
  CacheMode cache = CacheMode::automatic;
};

/// The records that `patterns` name, of this form. Errors: those of Dataset::open, on this rank.
Dataset open_records(const std::vector<std::string>& patterns, const RecordForm& form, const RecordOptions& options,
                     const Mpi& mpi);

}  // namespace carillon
