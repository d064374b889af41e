// cifar10_eval: precision @ 1 of a checkpoint of cifar10_train.
//
//   cifar10_eval --data 'data/cifar10/test-*' --checkpoint runs/cifar10
#include "carillon/app/app.h"
#include "carillon/app/program.h"

int main(int argc, char** argv) {
  using namespace carillon;
  return run_app("cifar10_eval", argc, argv,
                 [&](const Mpi& mpi) { return evaluate(cifar10_program(), argc, argv, mpi); });
}
