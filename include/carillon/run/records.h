// Records: how training and evaluation open the data set that a model takes.
#pragma once

#include <string>
#include <vector>

#include "carillon/comm/mpi.h"
#include "carillon/data/dataset.h"
#include "carillon/models/model.h"

namespace carillon {

struct RecordOptions {
  std::string image_key, label_key;  ///< features of a record; empty: the model's
  CacheMode cache = CacheMode::automatic;
};

/// The records that `patterns` name, as `model` takes them. Errors: those of Dataset::open, on this rank.
Dataset open_records(const std::vector<std::string>& patterns, const Model& model, const RecordOptions& options,
                     const Mpi& mpi);

}  // namespace carillon
