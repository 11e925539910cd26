"""Binary experiments (P, Q): the laws of an output with and without a record, one class per form."""
