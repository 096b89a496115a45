type Fields = Record<string, unknown>;
/** Every public parameter of one collection. */
export interface Plan {
    readonly digest: string;
    readonly unit: string;
    readonly distance: number;
    readonly epsilon: string;
    readonly delta: string;
    readonly sparsity: number;
    readonly kind: string;
    readonly size: number | null;
    readonly names: ReadonlyMap<string, number> | null;
    readonly mechanism: string;
    readonly parameters: Readonly<Fields>;
    readonly family: string;
    readonly bits: number;
    readonly maps: number;
    readonly decode: string;
    readonly salt: Uint8Array;
    readonly hash: (key: Uint8Array) => Uint8Array;
    readonly values: string;
}
/** Refuse a plan unless a rule holds; the specification has the rules of each field. */
export declare function rule(holds: boolean, field: string): asserts holds;
/** Return the integer of a field, which lies between two bounds. */
export declare function integer(fields: Fields, name: string, least: number, most: number): number;
/** Return whether a positive integer is a power of two. */
export declare const isPower: (value: number) => boolean;
/** Refuse an object that has other fields than these. */
export declare function exactly(fields: unknown, what: string, names: string): asserts fields is Fields;
/** Return the plan that a document holds, as text, bytes or a parsed object. */
export declare function readPlan(document: string | Uint8Array | object): Plan;
/** Return the shortest decimal of a number, without an exponent. */
export declare function spelled(value: number): string;
/** Return the distance of l1:DISTANCE, 0 of event and user, NaN or less of anything that is not a unit. */
export declare const distanceOf: (unit: string) => number;
export {};
